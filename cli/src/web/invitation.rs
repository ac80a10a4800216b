//! A file that leads the browser to the page. All users of the machine can see the arguments of programs, so a browser is
//! started with the name of this file, which only its owner can read.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The file, in a folder of its own. Both are gone when this is dropped.
#[derive(Debug)]
pub struct Invitation {
    folder: PathBuf,
    file: PathBuf,
}

impl Invitation {
    /// A file that leads to `address`, in a folder that nobody has made yet: `name` is not to be guessed.
    ///
    /// # Errors
    /// There can be no such folder or file.
    pub fn new(within: &Path, name: &str, address: &str) -> io::Result<Self> {
        let folder = within.join(format!("kubectl-sluice-{name}"));
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&folder)?;
        let file = folder.join("sluice.html");
        // From here on dropping it takes the folder away.
        let invitation = Self { folder, file };
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&invitation.file)?;
        file.write_all(page(address).as_bytes())?;
        Ok(invitation)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.file
    }
}

impl Drop for Invitation {
    fn drop(&mut self) {
        // What can't be removed holds a code that works no more.
        let _ = fs::remove_file(&self.file);
        let _ = fs::remove_dir(&self.folder);
    }
}

fn page(address: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Sluice</title>\n\
         <meta http-equiv=\"refresh\" content=\"0; url={address}\">\n</head>\n\
         <body><p><a href=\"{address}\">Open the page of kubectl sluice web</a></p></body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn only_its_owner_reads_it_and_it_goes_away() {
        use std::os::unix::fs::PermissionsExt as _;
        let within = std::env::temp_dir();
        let name = format!("test-{}", std::process::id());
        let address = "http://127.0.0.1:1/#token=00";
        let invitation = Invitation::new(&within, &name, address).unwrap();
        let path = invitation.path().to_owned();
        let folder = path.parent().unwrap().to_owned();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&path)), (0o700, 0o600));
        assert!(fs::read_to_string(&path).unwrap().contains(address));
        // Somebody else may have made the folder.
        assert!(Invitation::new(&within, &name, address).is_err());
        assert!(path.exists());
        drop(invitation);
        assert!(!path.exists() && !folder.exists());
    }
}
