//! The requests of a page to a model, and the answers.

use polyglow_data::tokenizer::Tokenizers;
use polyglow_model::search::{SearchMethod, SearchRequest};
use polyglow_predict::attention::{PairAttention, WordAttention, word_attention};
use polyglow_predict::runner::Runner;
use polyglow_predict::sentences::{Part, gap, parts};
use polyglow_predict::translate::{Request, Translated};
use polyglow_predict::{Result, Settings, TrainError, device};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Number;

use crate::beam::Beam;

/// A model in use, with all that it needs to translate.
#[derive(Clone)]
pub struct Translator {
    pub(crate) runner: Runner,
    /// The code of the language that the model reads.
    language: String,
}

/// A request to translate lines, with the options of the search.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TranslationRequest {
    /// The lines.
    pub lines: Vec<String>,
    /// The size of the beam, by default that of the run; or the number of samples, by default as
    /// many as are returned.
    #[serde(default, deserialize_with = "count")]
    pub beam_size: Option<usize>,
    /// The most translations that are returned for a line, at most `beam_size`; 1 by default.
    #[serde(default, deserialize_with = "count")]
    pub n_best: Option<usize>,
    /// The search method, by default that of the run.
    pub method: Option<SearchMethod>,
    /// The beginning of each line's translation, without regard to spaces around it; empty, or one
    /// for each line.
    #[serde(default)]
    pub prefixes: Vec<String>,
    /// The phrases that each line's translation must contain; empty, or a list for each line.
    #[serde(default)]
    pub constraints: Vec<Vec<String>>,
    /// Whether attention weights between words are returned.
    #[serde(default)]
    pub attention: bool,
}

/// A translation of a line.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Translation {
    /// The text.
    pub text: String,
    /// Its log-probability under the model, in nats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_prob: Option<f32>,
    /// The score that translations are ranked by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f32>,
    /// The attention weights from each word to the words of the line, in the last layer and averaged
    /// over its heads; only if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention: Option<WordAttention>,
}

impl TranslationRequest {
    /// Parses a request in JSON.
    ///
    /// # Errors
    /// It is no such JSON; the message names the field that is wrong.
    pub fn parse(json: &str) -> Result<Self> {
        let mut json = serde_json::Deserializer::from_str(json);
        serde_path_to_error::deserialize(&mut json)
            .map_err(|error| TrainError::new(error.to_string()))
    }
}

/// Deserializes a count of hypotheses, which may be missing or null but not 0.
fn count<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<usize>, D::Error> {
    let Some(number) = Option::<Number>::deserialize(deserializer)? else {
        return Ok(None);
    };
    match number.as_u64().map(usize::try_from) {
        Some(Ok(count @ 1..)) => Ok(Some(count)),
        _ => Err(D::Error::custom(format!(
            "{number} is not a whole number from 1 on"
        ))),
    }
}

impl From<Translated> for Translation {
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
    /// Loads a model from the content of its run's files: `config.toml`; `tokenizer.json`, or
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
        let settings = Settings::parse(config)?;
        let [language, _] = settings.data.named_languages();
        let language = language.unwrap_or_default().to_owned();
        Ok(Self { runner, language })
    }

    /// Cuts a text into sentences, by the abbreviations of the language that the model reads, and
    /// the text between them.
    pub fn parts<'t>(&self, text: &'t str) -> Vec<Part<'t>> {
        parts(text, &self.language)
    }

    /// Returns a text with translations in place of its sentences, in their order. Missing
    /// translations are empty.
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

    /// Returns the translations of each line, the best first, with words of the line in place of
    /// unknown ones. A sample depends on the seed of the run and on the index of its line. `progress`
    /// is called with the number of lines that are done, each time that some are.
    ///
    /// # Errors
    /// There are not as many prefixes or constraints as lines; the beam is too large, or smaller than
    /// the number of translations; a prefix or a constraint cannot be met.
    pub fn translate(
        &self,
        request: &TranslationRequest,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Vec<Vec<Translation>>> {
        let search = SearchRequest {
            method: request.method,
            beam_size: request.beam_size,
            n_best: request.n_best.unwrap_or(1),
            scores: true,
            ..SearchRequest::default()
        };
        let lines = line_requests(request)?;
        let runner = &self.runner;
        let mut translated = runner.translate_observed(&lines, 1, &search, progress)?;
        let sources: Vec<&str> = request.lines.iter().map(String::as_str).collect();
        runner.replace_unknown(&sources, &mut translated)?;
        let mut translations: Vec<Vec<Translation>> = Vec::with_capacity(translated.len());
        for best in translated {
            translations.push(best.into_iter().map(Translation::from).collect());
        }
        if request.attention {
            add_attention(runner, &sources, &mut translations)?;
        }
        Ok(translations)
    }

    /// Returns the attention of all layers and heads on a line and its translation.
    ///
    /// # Errors
    /// A side cannot be encoded.
    pub fn attention(&self, line: &str, translation: &str) -> Result<PairAttention> {
        PairAttention::new(&self.runner, line, translation)
    }

    /// Translates a line and returns every step of the beam search.
    ///
    /// # Errors
    /// The line cannot be encoded; the beam is too large.
    pub fn beam(&self, line: &str, beam_size: usize) -> Result<Beam> {
        Beam::search(&self.runner, line, beam_size)
    }
}

/// The requests of single lines.
///
/// # Errors
/// There are not as many prefixes or constraints as lines.
fn line_requests(request: &TranslationRequest) -> Result<Vec<Request>> {
    let TranslationRequest {
        lines,
        prefixes,
        constraints,
        ..
    } = request;
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
    let mut requests = Vec::with_capacity(lines.len());
    for (index, line) in lines.iter().enumerate() {
        requests.push(Request {
            text: line.clone(),
            prefix: prefixes.get(index).cloned().unwrap_or_default(),
            constraints: constraints.get(index).cloned().unwrap_or_default(),
            ..Request::default()
        });
    }
    Ok(requests)
}

/// Adds the attention weights of the last layer to the translations of each line.
fn add_attention(
    runner: &Runner,
    lines: &[&str],
    translations: &mut [Vec<Translation>],
) -> Result<()> {
    let mut pairs: Vec<[&str; 2]> = Vec::new();
    for (line, best) in lines.iter().zip(&*translations) {
        pairs.extend(best.iter().map(|translation| [*line, &*translation.text]));
    }
    let attention = word_attention(runner, &pairs)?;
    for (translation, mut layers) in translations.iter_mut().flatten().zip(attention) {
        translation.attention = layers.pop();
    }
    Ok(())
}
