//! One warning about all lines of a text that are longer than a model.

/// The lines of a text that are read in part, since they are longer than a model: their count and
/// the first of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongLines {
    count: u64,
    first: u64,
}

impl LongLines {
    /// Counts the cut lines of a text, given for each line, in order, whether it is cut.
    pub fn from_cut(are_cut: impl IntoIterator<Item = bool>) -> Self {
        let mut long = Self::default();
        for (line, is_cut) in (1..).zip(are_cut) {
            long.note(line, is_cut);
        }
        long
    }

    /// Counts a line, whose number is from 1, if it is cut.
    pub fn note(&mut self, line: u64, is_cut: bool) {
        if is_cut {
            self.first = if self.count == 0 { line } else { self.first };
            self.count += 1;
        }
    }

    /// Warns of them, if there are any, about a text that a span names: `what` is what a line
    /// holds, such as `pair`; `use_` what is made of its first `longest` tokens, such as `scored`.
    pub fn warn(self, what: &str, longest: usize, use_: &str) {
        if let Some(message) = self.message(what, longest, use_) {
            tracing::warn!("{message}");
        }
    }

    /// The warning, without the name of a file; none if there are no such lines.
    pub fn message(self, what: &str, longest: usize, use_: &str) -> Option<String> {
        let Self { count, first } = self;
        match count {
            0 => None,
            1 => Some(format!(
                "the {what} on line {first} is longer than the model's {longest} tokens: only its first {longest} tokens are \
                 {use_}"
            )),
            _ => Some(format!(
                "{count} {what}s are longer than the model's {longest} tokens, the first on line {first}: only their first \
                 {longest} tokens are {use_}"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_and_the_count_are_named() {
        assert_eq!(
            LongLines::from_cut([false, false]).message("pair", 20, "scored"),
            None
        );
        let long = LongLines::from_cut([false, true, false, true]);
        let message = "2 pairs are longer than the model's 20 tokens, the first on line 2: only their first 20 tokens are scored";
        assert_eq!(long.message("pair", 20, "scored").unwrap(), message);
        let message = "the text on line 1 is longer than the model's 9 tokens: only its first 9 tokens are read";
        assert_eq!(
            LongLines::from_cut([true])
                .message("text", 9, "read")
                .unwrap(),
            message
        );
    }
}
