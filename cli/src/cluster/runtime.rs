//! How a command asks a cluster: one thread, as commands mostly wait.

use std::io;

/// Runs what asks a cluster to its end.
///
/// # Errors
/// The system gives no means to wait for a cluster.
pub fn run<T>(command: impl Future<Output = T>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let ended = runtime.block_on(command);
    // A credential plugin that hangs must not keep the process.
    runtime.shutdown_background();
    Ok(ended)
}
