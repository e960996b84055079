//! Words for messages.

use std::fmt::Display;

/// A number with its noun: `1 thread`, `2 threads`.
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    format!("{number} {noun}{}", if number == N::from(1) { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_is_singular() {
        assert_eq!([0, 1, 2].map(|number| counted(number, "thread")), ["0 threads", "1 thread", "2 threads"]);
    }
}
