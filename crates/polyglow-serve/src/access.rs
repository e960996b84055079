//! Who may ask.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::failure::Failure;

/// Keys with which one may ask.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    /// SHA-256 of each: all of one length, so that a comparison takes the same time whatever is
    /// compared.
    hashes: Vec<[u8; 32]>,
    /// Whether nobody may ask without one.
    pub required: bool,
}

impl Keys {
    /// Reads keys, one a line; blank lines and what begins with `#` are none.
    pub fn parse(text: &str, required: bool) -> Self {
        let lines = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self {
            hashes: lines.map(|line| Sha256::digest(line).into()).collect(),
            required,
        }
    }

    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Makes sure that whoever has this key, or none, may ask.
    ///
    /// # Errors
    /// It is none of these; one is required.
    pub(crate) fn check(&self, key: Option<&str>) -> Result<(), Failure> {
        match key.filter(|key| !key.is_empty()) {
            None if self.required => Err(Failure::bad(
                "Please contact the server operator to get an API key",
            )),
            Some(key) if !self.is_empty() && !self.knows(key) => {
                Err(Failure::forbidden("Invalid API key"))
            }
            _ => Ok(()),
        }
    }

    /// Makes sure that whoever reads the counts has a key, if nobody may ask without one.
    ///
    /// # Errors
    /// It is none of these, or there is none.
    pub(crate) fn check_reader(&self, key: Option<&str>) -> Result<(), Failure> {
        if self.required && !key.is_some_and(|key| self.knows(key)) {
            Err(Failure::unknown())
        } else {
            Ok(())
        }
    }

    /// All keys are compared, and every byte of them, so that the time says nothing of how much was
    /// right.
    fn knows(&self, key: &str) -> bool {
        let hash: [u8; 32] = Sha256::digest(key).into();
        self.hashes
            .iter()
            .fold(0, |found, known| found | known.ct_eq(&hash).unwrap_u8())
            == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_one_of_those_in_the_file() {
        let keys = |required| Keys::parse("# of the library\nlibrary-1\n\n  school-2 \n", required);
        for (key, required, expected) in [
            (None, false, None),
            (Some(""), false, None),
            (Some("school-2"), true, None),
            (Some("school-3"), false, Some(403)),
            (Some("# of the library"), false, Some(403)),
            (None, true, Some(400)),
        ] {
            let found = keys(required)
                .check(key)
                .err()
                .map(|failure| failure.status.as_u16());
            assert_eq!(found, expected, "{key:?}");
        }
        Keys::default()
            .check(Some("any"))
            .expect("without keys, any is as good as none");
    }
}
