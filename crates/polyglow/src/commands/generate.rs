//! `polyglow generate`: text from a language model.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, anyhow, ensure};
use clap::Args;
use polyglow_data::tokenizer::Tokenizer;
use polyglow_model::Model;
use polyglow_model::search::{
    Incremental, SearchConfig, SearchMethod, Sentence, SpecialTokens, search,
};
use polyglow_predict::TaskFacts;
use polyglow_predict::device::upload;

use super::counts;
use super::model::ModelArgs;
use super::uses::check_plan;
use crate::failure::{usage, with_hint};

/// What `polyglow generate` is asked to do.
#[derive(Args)]
pub(crate) struct GenerateArgs {
    /// Directory of the run of a language model
    run: PathBuf,
    /// What every text begins with
    #[arg(long, value_name = "TEXT", default_value = "")]
    prompt: String,
    /// Number of texts to write
    #[arg(short = 'n', long, value_name = "N", default_value = "1", allow_negative_numbers = true, value_parser = counts())]
    count: usize,
    /// Maximum length in tokens, prompt included [default: the longest that the model was trained
    /// on]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = counts())]
    max_len: Option<usize>,
    /// Sampling temperature, which divides the log-probabilities: below 1 safer, above 1 more
    /// surprising
    #[arg(
        long,
        value_name = "T",
        default_value = "1",
        allow_negative_numbers = true
    )]
    temperature: f64,
    /// Sample from this many of the most probable tokens; 0 for all
    #[arg(long, value_name = "K", default_value = "0")]
    top_k: usize,
    /// Sample from the fewest tokens whose probabilities add up to at least this
    #[arg(
        long,
        value_name = "P",
        default_value = "1",
        allow_negative_numbers = true
    )]
    top_p: f64,
    /// Random seed; the same seed gives the same texts
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// `best`, `last`, `step-N`, `average`, `ema`, or the path of a checkpoint
    #[arg(long, value_name = "NAME", default_value = "best")]
    checkpoint: String,
    /// Device to run on, as `polyglow devices` lists it [default: the config's]
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
}

/// Draws texts by the model's probabilities and prints each on a line.
///
/// # Errors
/// There is no such run, checkpoint or device; the run is of a model that translates, or a number
/// is out of its range (exit code 2); the prompt is too long or has words that the vocabulary
/// lacks.
pub(crate) fn run(args: &GenerateArgs) -> anyhow::Result<()> {
    let model_args = ModelArgs::of_run(&args.run, &args.checkpoint, args.device.clone());
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
    let plan = model_args.open()?;
    check_plan(&args.run, &plan, TaskFacts::generates)?;
    let trained = model_args.load(&plan)?.swap_remove(0);
    let tokenizer = &trained.tokenizers.tgt;
    let sentence = sentence(args, &trained.model, tokenizer)?;
    let special = tokenizer.special();
    // A language model only uses the number of rows of the source.
    let source = upload(vec![special.bos as i32], 1, &plan.device);
    let mut next = Incremental::new(
        [(&trained.model, source)],
        &[special.pad, special.bos, special.unk],
    );
    let special_tokens = SpecialTokens {
        bos: special.bos,
        eos: special.eos,
    };
    let mut out = io::stdout().lock();
    for hypothesis in search(&mut next, &[sentence], &search_config, special_tokens).remove(0) {
        let text = tokenizer
            .decode(&hypothesis.ids)
            .context("decoding a text")?;
        writeln!(out, "{}", text.replace(['\n', '\r'], " "))?;
    }
    Ok(())
}

/// The prefix and the limits of the texts.
fn sentence(args: &GenerateArgs, model: &Model, tokenizer: &Tokenizer) -> anyhow::Result<Sentence> {
    let prefix = tokenizer
        .encode(&args.prompt)
        .context("encoding the prompt")?;
    let unknown = prefix.contains(&tokenizer.special().unk);
    ensure!(
        !unknown,
        "the prompt `{}` has words or characters that the model's vocabulary lacks",
        args.prompt
    );
    let longest = model.vocabulary().max_len;
    let max_len = args.max_len.map_or(longest, |len| len + 1);
    if max_len > longest {
        let error = anyhow!(
            "`--max-len {}`: the model reads and writes {} tokens, without begin and end marks",
            max_len - 1,
            longest - 1
        );
        return Err(with_hint(
            usage(error),
            "lower `--max-len`, or leave it out",
        ));
    }
    let len = prefix.len();
    ensure!(
        len < max_len,
        "the prompt has {len} tokens, which leaves none of the {} for the text",
        max_len - 1
    );
    Ok(Sentence {
        min_len: 0,
        max_len,
        prefix,
        ..Sentence::default()
    })
}
