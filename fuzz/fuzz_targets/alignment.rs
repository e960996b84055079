//! Any bytes as links of people, and as the state of an alignment with the key and the hash that it
//! would need to be believed: a state is continued if it fits the text, and begun anew otherwise.

#![no_main]

use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;

use libfuzzer_sys::fuzz_target;
use polyglow_data::align::{AlignOptions, Aligner, Bitext, SavedChains, Symmetrization};
use polyglow_data::alignment::GoldLines;
use polyglow_data::lines::Lines;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

const PAIRS: [(&str, &str); 3] = [("a b c", "A B C"), ("b", "A B C D"), ("c b a", "C B")];
/// The chains of one direction, the fewest that there can be.
const OPTIONS: AlignOptions = AlignOptions {
    chains: 1,
    null: 0.1,
    seed: 1,
};

struct Setup {
    dir: TempDir,
    text: Bitext,
    /// The key of the text, with which a state begins.
    key: Vec<u8>,
}

static SETUP: LazyLock<Setup> = LazyLock::new(|| {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let text = Bitext::new(PAIRS);
    let aligner = Aligner::new(&text, OPTIONS);
    let saved = SavedChains::open(dir.path(), &aligner).expect("it is empty");
    let stop = AtomicBool::new(true);
    saved.align(&aligner, 1, &stop, |_| {}).expect("it can be written");
    let state = fs::read(dir.path().join("forwards-1")).expect("it was written");
    let key = state[..32].to_vec();
    Setup { dir, text, key }
});

fuzz_target!(|bytes: &[u8]| {
    let Setup { dir, text, key } = &*SETUP;
    if let Ok(lines) = Lines::from_reader(std::io::Cursor::new(bytes.to_vec()), Path::new("gold")) {
        for links in GoldLines(lines) {
            drop(links);
        }
    }
    let mut state = [key, bytes].concat();
    let hash = Sha256::digest(&state);
    state.extend(hash);
    fs::write(dir.path().join("forwards-1"), state).expect("it can be written");
    let aligner = Aligner::new(text, OPTIONS);
    let saved = SavedChains::open(dir.path(), &aligner).expect("the key is right");
    let stop = AtomicBool::new(false);
    let aligned = saved.align(&aligner, 1, &stop, |_| {}).expect("it can be written");
    let marginals = aligned.expect("it was not stopped");
    for pair in 0..text.len() {
        marginals.links(pair, Symmetrization::GrowDiagFinalAnd);
    }
});
