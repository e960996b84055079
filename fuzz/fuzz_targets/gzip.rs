//! Any bytes as a text file, plain or compressed: the lines are the text, cut at its line ends.

#![no_main]

use std::io::Cursor;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use polyglow_data::lines::{Lines, read_text};

/// As much text as is looked at: compressed text may be a thousand times as long as the input.
const LINES: usize = 10_000;

fuzz_target!(|bytes: &[u8]| {
    let name = Path::new("input");
    let Ok(lines) = Lines::from_reader(Cursor::new(bytes.to_vec()), name) else {
        return;
    };
    let lines: Result<Vec<String>, _> = lines.take(LINES).collect();
    let text = read_text(Cursor::new(bytes.to_vec()), name);
    if let (Ok(lines), Ok(text)) = (lines, text)
        && lines.len() < LINES
    {
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        assert_eq!(lines.len(), text.split_terminator('\n').count());
        assert!(lines.iter().all(|line| !line.contains('\n')));
    }
});
