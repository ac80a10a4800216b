//! Whether anybody still reads what is printed: `head` goes once it has seen enough.
//!
//! Must not know what is printed.

use std::io;

/// What was written, or not, as the reader has gone: most commands go on all the same, as what they do must not be left half
/// done.
///
/// # Errors
/// It can't be written.
pub fn unless_closed(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if is_closed(&error) => Ok(()),
        written => written,
    }
}

/// Whether what is printed can't be written because its reader has gone.
pub fn is_closed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// Ends when the reader of the standard output has gone: a command that prints seldom and for ever would outlive it. Where
/// that can't be known, it never ends.
pub async fn reader_gone() {
    #[cfg(unix)]
    if closed(io::stdout()).await.is_ok() {
        return;
    }
    std::future::pending::<()>().await;
}

/// Ends when nobody has the other side of this pipe any more. What is no pipe can't be watched, or never tells.
#[cfg(unix)]
async fn closed(output: impl std::os::fd::AsFd) -> io::Result<()> {
    use tokio::io::Interest;
    use tokio::net::unix::pipe::Sender;

    // Nothing is written with it, so that the pipe may block as it does.
    let pipe = Sender::from_owned_fd_unchecked(output.as_fd().try_clone_to_owned()?)?;
    while !pipe.ready(Interest::ERROR).await?.is_error() {}
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_pipe_tells_that_its_reader_has_gone() {
        let (reader, writer) = io::pipe().unwrap();
        let gone = tokio::spawn(closed(writer));
        drop(reader);
        gone.await.unwrap().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(closed(file).await.is_err());
    }
}
