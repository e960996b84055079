//! The keys of clients.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::failure::Failure;

/// The keys of the clients that may use the server.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    /// SHA-256 of each: all have one length, so that a comparison takes the same time for every
    /// key.
    hashes: Vec<[u8; 32]>,
    /// Whether requests without a key are turned away.
    pub required: bool,
}

impl Keys {
    /// Reads keys, one per line; blank lines and lines that begin with `#` are ignored.
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

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Checks the key of a request for translations; an empty one counts as none.
    ///
    /// # Errors
    /// It is not among the keys; it is missing, and one is required.
    pub(crate) fn check(&self, key: Option<&str>) -> Result<(), Failure> {
        match key.filter(|key| !key.is_empty()) {
            None if self.required => Err(Failure::bad_request(
                "Please contact the server operator to get an API key",
            )),
            Some(key) if !self.is_empty() && !self.knows(key) => {
                Err(Failure::forbidden("Invalid API key"))
            }
            _ => Ok(()),
        }
    }

    /// Checks the key of a request for metrics, which needs one if translations do.
    ///
    /// # Errors
    /// It is not among the keys or missing, and one is required.
    pub(crate) fn check_reader(&self, key: Option<&str>) -> Result<(), Failure> {
        if self.required && !key.is_some_and(|key| self.knows(key)) {
            Err(Failure::unauthorized())
        } else {
            Ok(())
        }
    }

    /// Returns whether a key is among the keys.
    fn knows(&self, key: &str) -> bool {
        let hash: [u8; 32] = Sha256::digest(key).into();
        // Every byte of all keys is compared: otherwise the time would tell an attacker how many
        // bytes of a guess were right.
        let mut is_known = 0;
        for known in &self.hashes {
            is_known |= known.ct_eq(&hash).unwrap_u8();
        }
        is_known == 1
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
            let status = keys(required)
                .check(key)
                .err()
                .map(|failure| failure.status.as_u16());
            assert_eq!(status, expected, "{key:?}");
        }
        Keys::default()
            .check(Some("any"))
            .expect("without keys, any is as good as none");
    }
}
