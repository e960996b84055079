//! `polyglow generate`: text from a language model.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, anyhow, ensure};
use polyglow_data::tokenizer::Tokenizer;
use polyglow_model::search::{Incremental, Marks, SearchConfig, SearchMethod, Sentence, search};
use polyglow_model::{Model, Task};

use super::model::ModelArgs;
use crate::failure::{usage, with_hint};
use polyglow_train::device::upload;

/// What `polyglow generate` is asked to do.
#[derive(Clone, Debug)]
pub struct GenerateArgs {
    /// Directory of the run.
    pub run: PathBuf,
    /// What every text begins with.
    pub prompt: String,
    /// Texts to write.
    pub count: usize,
    /// Longest text in tokens, the prompt's included; the model's longest without one.
    pub max_len: Option<usize>,
    /// Divides log-probabilities.
    pub temperature: f64,
    /// Draw among so many of the most probable tokens; 0 for all.
    pub top_k: usize,
    /// Draw among the fewest tokens with at least this probability together.
    pub top_p: f64,
    /// The same seed writes the same texts.
    pub seed: u64,
    /// `best`, `last`, `step-N`, `average`, `ema`, or the path of a checkpoint.
    pub checkpoint: String,
    /// Device to run on, in place of the config's.
    pub device: Option<String>,
}

/// Draws texts by the model's probabilities and prints each on a line.
///
/// # Errors
/// There is no such run, checkpoint or device; the run is of a model that translates, or a number is out of its range
/// (exit code 2); the prompt is too long or has words that the vocabulary lacks.
pub fn run(args: &GenerateArgs) -> anyhow::Result<()> {
    let model_args = ModelArgs {
        run: args.run.clone(),
        checkpoint: args.checkpoint.clone(),
        ensemble: Vec::new(),
        overrides: Vec::new(),
        beam_size: None,
        device: args.device.clone(),
    };
    let search_config = SearchConfig {
        method: SearchMethod::Sample,
        beam_size: args.count,
        temperature: args.temperature,
        top_k: args.top_k,
        top_p: args.top_p,
        seed: args.seed,
        ..SearchConfig::default()
    };
    search_config.validate().map_err(usage)?;
    let (config, device) = model_args.open()?;
    if config.model.task() != Task::Language {
        let error = anyhow!("`{}` has `model.arch = \"{}\"`", args.run.display(), config.model.arch.name());
        let advice = match config.model.task() {
            Task::Words => "`polyglow embeddings` is for word vectors",
            Task::Labels | Task::Images => "`polyglow classify` is for models that give labels",
            Task::Masked => "`polyglow evaluate` is for models that find hidden tokens",
            Task::Translation | Task::Language => "`polyglow translate` is for models with a source",
        };
        return Err(with_hint(usage(error), advice));
    }
    let trained = model_args.load(&device)?.swap_remove(0);
    let tokenizer = &trained.tokenizers.tgt;
    let sentence = sentence(args, &trained.model, tokenizer)?;
    let special = tokenizer.special();
    // A language model looks only at how many rows the source has.
    let source = upload(vec![special.bos as i32], 1, &device);
    let mut next = Incremental::new([(&trained.model, source)], &[special.pad, special.bos, special.unk]);
    let marks = Marks { bos: special.bos, eos: special.eos };
    let mut out = io::stdout().lock();
    for hypothesis in search(&mut next, &[sentence], &search_config, marks).remove(0) {
        let text = tokenizer.decode(&hypothesis.ids).context("decoding a text")?;
        writeln!(out, "{}", text.replace(['\n', '\r'], " "))?;
    }
    Ok(())
}

/// What is asked of the texts.
fn sentence(args: &GenerateArgs, model: &Model, tokenizer: &Tokenizer) -> anyhow::Result<Sentence> {
    let prefix = tokenizer.encode(&args.prompt).context("encoding the prompt")?;
    let unknown = prefix.contains(&tokenizer.special().unk);
    ensure!(!unknown, "the prompt `{}` has words or characters that the model's vocabulary lacks", args.prompt);
    let longest = model.vocabulary().max_len;
    let max_len = args.max_len.map_or(longest, |len| len + 1);
    if max_len > longest {
        let error = anyhow!(
            "`--max-len {}`: the model reads and writes {} tokens, without begin and end marks",
            max_len - 1,
            longest - 1
        );
        return Err(usage(error));
    }
    let len = prefix.len();
    ensure!(len < max_len, "the prompt has {len} tokens, which leaves none of the {} to write", max_len - 1);
    Ok(Sentence { min_len: 0, max_len, prefix, constraints: Vec::new(), number: 0 })
}
