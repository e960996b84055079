//! What a page asks of a model.

use polyglow_data::tokenizer::Tokenizers;
use polyglow_model::search::{SearchMethod, SearchRequest};
use polyglow_predict::attention::{PairAttention, WordAttention, of_words};
use polyglow_predict::runner::Runner;
use polyglow_predict::sentences::{Part, gap, parts};
use polyglow_predict::translate::{Request, Translated};
use polyglow_predict::{Result, Settings, TrainError, device};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Number;

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
    /// Width of the beam, that of the run if it is not given; or number of samples, as many as are
    /// returned if it is not given.
    #[serde(default, deserialize_with = "count")]
    pub beam_size: Option<usize>,
    /// Translations of each line, at most; no more than `beam_size`; 1 if it is not given.
    #[serde(default, deserialize_with = "count")]
    pub n_best: Option<usize>,
    /// How they are looked for; as the run does if it is not said.
    pub method: Option<SearchMethod>,
    /// What the translation of each line begins with, without regard to spaces around it; none, or
    /// as many as lines.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_prob: Option<f32>,
    /// The score that translations are ranked by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f32>,
    /// What each word looks at in the last layer, heads averaged, a weight for each word of the
    /// line; only if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention: Option<WordAttention>,
}

impl Asked {
    /// Reads a question in JSON.
    ///
    /// # Errors
    /// It is no such JSON; the message names the field that is wrong.
    pub fn parse(json: &str) -> Result<Self> {
        let mut json = serde_json::Deserializer::from_str(json);
        serde_path_to_error::deserialize(&mut json)
            .map_err(|error| TrainError::new(error.to_string()))
    }
}

/// A number of hypotheses, if it is given.
fn count<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<usize>, D::Error> {
    let Some(number) = Option::<Number>::deserialize(deserializer)? else {
        return Ok(None);
    };
    let count = number
        .as_u64()
        .and_then(|number| usize::try_from(number).ok())
        .filter(|number| *number > 0);
    count
        .map(Some)
        .ok_or_else(|| D::Error::custom(format!("{number} is not a whole number from 1 on")))
}

impl From<Translated> for Found {
    fn from(Translated { text, scores }: Translated) -> Self {
        Self {
            text,
            log_prob: scores.map(|scores| scores.log_prob),
            score: scores.map(|scores| scores.score),
            attention: None,
        }
    }
}

impl Translator {
    /// A model from the content of its run's files: `config.toml`; `tokenizer.json`, or
    /// `tokenizer.src.json` and `tokenizer.tgt.json`; and `model.safetensors` of a checkpoint.
    ///
    /// # Errors
    /// One of them is damaged, or they do not belong together.
    pub fn new(
        config: &str,
        tokenizer: &[u8],
        tgt_tokenizer: Option<&[u8]>,
        weights: &[u8],
    ) -> Result<Self> {
        let tokenizers = Tokenizers::parse(tokenizer, tgt_tokenizer)?;
        let runner = Runner::from_bytes(config, &tokenizers, weights, device::open("flex")?)?;
        let language = Settings::parse(config)?.data.src.unwrap_or_default();
        Ok(Self { runner, language })
    }

    /// Cuts a text into sentences, by the abbreviations of the language that the model reads, and
    /// what is between them.
    pub fn parts<'t>(&self, text: &'t str) -> Vec<Part<'t>> {
        parts(text, &self.language)
    }

    /// A text with these translations in place of its sentences, in their order. Missing ones are
    /// empty.
    pub fn join(&self, text: &str, translations: &[String]) -> String {
        let mut translations = translations.iter();
        let mut joined = String::new();
        let mut follows_sentence = false;
        for part in self.parts(text) {
            match part {
                Part::Kept(kept) => joined.push_str(kept),
                Part::Sentence(_) => {
                    let translation = translations.next().map_or("", String::as_str);
                    if follows_sentence {
                        joined.push_str(gap(&joined, translation));
                    }
                    joined.push_str(translation);
                }
            }
            follows_sentence = matches!(part, Part::Sentence(_));
        }
        joined
    }

    /// The translations of each line, the best first, with words of the line in place of unknown
    /// ones. A sample depends on the seed of the run and on which of the lines it is of. `progress`
    /// is told how many lines are done, each time that some are.
    ///
    /// # Errors
    /// There are not as many prefixes as lines; a beam cannot be so wide, or is narrower than the
    /// number of translations; a prefix or a constraint cannot be met.
    pub fn translate(
        &self,
        asked: &Asked,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Vec<Vec<Found>>> {
        let search = SearchRequest {
            method: asked.method,
            beam_size: asked.beam_size,
            n_best: asked.n_best.unwrap_or(1),
            scores: true,
            ..SearchRequest::default()
        };
        let requests = requests(asked)?;
        let runner = &self.runner;
        let mut translations = runner.translate_observed(&requests, 1, &search, progress)?;
        let sources: Vec<&str> = asked.lines.iter().map(String::as_str).collect();
        runner.replace_unknown(&sources, &mut translations)?;
        let mut found: Vec<Vec<Found>> = translations
            .into_iter()
            .map(|best| best.into_iter().map(Found::from).collect())
            .collect();
        if asked.attention {
            let pairs: Vec<[&str; 2]> = asked
                .lines
                .iter()
                .zip(&found)
                .flat_map(|(line, best)| best.iter().map(|found| [&**line, &*found.text]))
                .collect();
            let attention = of_words(runner, &pairs)?;
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
    let Asked {
        lines,
        prefixes,
        constraints,
        ..
    } = asked;
    for (name, count) in [
        ("prefixes", prefixes.len()),
        ("constraints", constraints.len()),
    ] {
        if count != 0 && count != lines.len() {
            return Err(TrainError::new(format!(
                "{} lines and {count} {name}",
                lines.len()
            )));
        }
    }
    let request = |(place, line): (usize, &String)| Request {
        text: line.clone(),
        prefix: prefixes.get(place).cloned().unwrap_or_default(),
        constraints: constraints.get(place).cloned().unwrap_or_default(),
        ..Request::default()
    };
    Ok(lines.iter().enumerate().map(request).collect())
}
