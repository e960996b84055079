//! Any bytes as the files of a checkpoint.

#![no_main]

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use polyglow_fuzz::parts;
use polyglow_predict::weights::Weights;
use polyglow_train::run::Checkpoint;
use tempfile::TempDir;

static DIR: LazyLock<TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("a temporary directory"));

fuzz_target!(|input: &[u8]| {
    let [state, model] = parts(input);
    let path = DIR.path().join("step-1");
    fs::create_dir_all(&path).expect("it can be made");
    fs::write(path.join("state.json"), state).expect("it can be written");
    fs::write(path.join("model.safetensors"), model).expect("it can be written");
    if let Ok(checkpoint) = Checkpoint::open(&path) {
        let _ = checkpoint.verify();
        let _ = checkpoint.model();
        let _ = checkpoint.parameters();
    }
    if let Ok(weights) = Weights::parse(model, Path::new("model.safetensors")) {
        for (_, data) in weights.rest() {
            assert_eq!(
                data.iter::<f32>().count(),
                data.shape().iter().product::<usize>()
            );
        }
    }
});
