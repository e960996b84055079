//! Any text as a `tokenizer.json`: an error, or a tokenizer that reads and writes text without a
//! panic.

#![no_main]

use std::panic;

use libfuzzer_sys::fuzz_target;
use polyglow_data::tokenizer::Tokenizer;

const TEXTS: [&str; 4] = [
    "the dog sleeps",
    "",
    "  <s> a\u{301}\u{feff} </s>",
    "1 2 ünï 日本語 🦀",
];

fuzz_target!(
    // The fuzzer would end at a panic inside the library, which our boundary is there to catch: it
    // is listed instead.
    init: panic::set_hook(Box::new(|info| eprintln!("caught: {info}"))),
    |json: &str| {
    let Ok(tokenizer) = Tokenizer::parse(json.as_bytes(), "tokenizer.json") else { return };
    for text in TEXTS {
        if let Ok(ids) = tokenizer.encode(text) {
            assert!(ids.iter().all(|&id| (id as usize) < tokenizer.vocab_size()));
            let _ = tokenizer.decode(&ids);
        }
        let _ = tokenizer.encode_words(text);
    }
    let _ = tokenizer.to_json();
    }
);
