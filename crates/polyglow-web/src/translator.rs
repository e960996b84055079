//! What a page asks of a model.

use polyglow_data::tokenizer::Tokenizers;
use polyglow_model::search::SearchMethod;
use polyglow_train::device;
use polyglow_train::predict::attention::{PairAttention, WordAttention, of_words};
use polyglow_train::predict::runner::Runner;
use polyglow_train::predict::sentences::{Part, parts};
use polyglow_train::predict::translate::{Request, Translated};
use polyglow_train::{Config, Result, TrainError};
use serde::{Deserialize, Serialize};

use crate::beam::Beam;

/// A model in use.
#[derive(Clone)]
pub struct Translator {
    pub(crate) runner: Runner,
    /// The code of the language that the model reads.
    language: String,
}

/// Lines to translate, and how.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Asked {
    /// The lines.
    pub lines: Vec<String>,
    /// Width of the beam; that of the run if it is not said.
    pub beam_size: Option<usize>,
    /// Translations of each line, at most; 1 if it is not said.
    pub n_best: Option<usize>,
    /// How they are looked for; as the run does if it is not said.
    pub method: Option<SearchMethod>,
    /// What the translation of each line begins with; none, or as many as lines.
    #[serde(default)]
    pub prefixes: Vec<String>,
    /// Phrases that the translation of each line contains; none, or as many as lines.
    #[serde(default)]
    pub constraints: Vec<Vec<String>>,
    /// Whether it is found what the words of translations look at.
    #[serde(default)]
    pub attention: bool,
}

/// A translation of a line.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Found {
    /// The text.
    pub text: String,
    /// Its log-probability under the model, in nats.
    pub log_prob: f32,
    /// What translations are ranked by.
    pub score: f32,
    /// What each word looks at in the last layer, heads averaged, a weight for each word of the line; only if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention: Option<WordAttention>,
}

impl From<Translated> for Found {
    fn from(Translated { text, log_prob, score }: Translated) -> Self {
        Self { text, log_prob, score, attention: None }
    }
}

impl Translator {
    /// A model from the content of its run's files: `config.toml`; `tokenizer.json`, or `tokenizer.src.json` and
    /// `tokenizer.tgt.json`; and `model.safetensors` of a checkpoint.
    ///
    /// # Errors
    /// One of them is damaged, or they do not belong together.
    pub fn new(config: &str, tokenizer: &[u8], tgt_tokenizer: Option<&[u8]>, weights: &[u8]) -> Result<Self> {
        let tokenizers = Tokenizers::parse(tokenizer, tgt_tokenizer)?;
        let runner = Runner::from_bytes(config, &tokenizers, weights, device::open("flex")?)?;
        let language = Config::parse(config)?.data.src.unwrap_or_default();
        Ok(Self { runner, language })
    }

    /// Cuts a text into sentences, by the abbreviations of the language that the model reads, and what is between them.
    pub fn parts<'t>(&self, text: &'t str) -> Vec<Part<'t>> {
        parts(text, &self.language)
    }

    /// The translations of each line, the best first. `progress` is told how many lines are done, each time that some are.
    ///
    /// # Errors
    /// There are not as many prefixes as lines; a beam cannot be so wide; a wish cannot be fulfilled.
    pub fn translate(&self, asked: &Asked, progress: &mut dyn FnMut(usize)) -> Result<Vec<Vec<Found>>> {
        let mut runner = self.runner.clone();
        let n_best = asked.n_best.unwrap_or(1);
        let widest = runner.tgt.vocab_size();
        runner.search.beam_size = asked.beam_size.unwrap_or(runner.search.beam_size);
        runner.search.method = asked.method.unwrap_or(runner.search.method);
        runner.search.validate()?;
        runner.search.beam_size = runner.search.beam_size.max(n_best).min(widest);
        let requests = requests(asked)?;
        let translations = runner.translate_observed(&requests, 1, true, progress)?;
        let mut found: Vec<Vec<Found>> =
            translations.into_iter().map(|best| best.into_iter().take(n_best).map(Found::from).collect()).collect();
        if asked.attention {
            let pairs: Vec<[&str; 2]> = asked
                .lines
                .iter()
                .zip(&found)
                .flat_map(|(line, best)| best.iter().map(|found| [&**line, &*found.text]))
                .collect();
            let attention = of_words(&runner, &pairs)?;
            for (found, mut layers) in found.iter_mut().flatten().zip(attention) {
                found.attention = layers.pop();
            }
        }
        Ok(found)
    }

    /// The attention of all layers and heads on a line and its translation.
    ///
    /// # Errors
    /// A side cannot be encoded.
    pub fn attention(&self, line: &str, translation: &str) -> Result<PairAttention> {
        PairAttention::new(&self.runner, line, translation)
    }

    /// A beam search, step by step.
    ///
    /// # Errors
    /// The line cannot be encoded; a beam cannot be so wide.
    pub fn beam(&self, line: &str, beam_size: usize) -> Result<Beam> {
        Beam::search(&self.runner, line, beam_size)
    }
}

fn requests(asked: &Asked) -> Result<Vec<Request>> {
    let Asked { lines, prefixes, constraints, .. } = asked;
    for (name, count) in [("prefixes", prefixes.len()), ("constraints", constraints.len())] {
        if count != 0 && count != lines.len() {
            return Err(TrainError::new(format!("{} lines and {count} {name}", lines.len())));
        }
    }
    let request = |(place, line): (usize, &String)| Request {
        text: line.clone(),
        prefix: prefixes.get(place).cloned().unwrap_or_default(),
        constraints: constraints.get(place).cloned().unwrap_or_default(),
    };
    Ok(lines.iter().enumerate().map(request).collect())
}
