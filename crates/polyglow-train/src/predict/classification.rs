//! Texts or images to labels: what `classify` prints.

use burn::tensor::activation::log_softmax;
use polyglow_data::example::Example;
use polyglow_model::mean_of_probabilities;

use crate::device::upload;
use crate::error::{Context, Result};
use crate::predict::translate::{Member, Translator};

/// What something probably is.
#[derive(Clone, Debug, PartialEq)]
pub struct Guess {
    /// The most probable label.
    pub label: String,
    /// Its probability, 0 to 1.
    pub probability: f64,
}

/// A text in ids, once for each member.
struct Row {
    index: usize,
    ids: Vec<Vec<u32>>,
}

impl Row {
    fn width(&self) -> usize {
        self.ids.iter().map(Vec::len).max().unwrap_or(0) + 1
    }
}

/// The most probable label of every text, batched by length; images are texts of their bytes. A text that is longer than
/// the model is cut, with a warning.
///
/// # Errors
/// A text cannot be encoded.
pub fn classify(translator: &Translator<'_>, texts: &[&str]) -> Result<Vec<Guess>> {
    let mut rows = encode(translator, texts)?;
    rows.sort_by_key(Row::width);
    let mut found: Vec<Option<Guess>> = vec![None; texts.len()];
    for rows in translator.forced_batches(&rows, Row::width) {
        for (row, guess) in rows.iter().zip(forward(translator, rows)?) {
            found[row.index] = Some(guess);
        }
    }
    found.into_iter().collect::<Option<_>>().context("a text has no row")
}

fn encode(translator: &Translator<'_>, texts: &[&str]) -> Result<Vec<Row>> {
    let longest = translator.longest();
    let mut rows: Vec<Row> = (0..texts.len()).map(|index| Row { index, ids: Vec::new() }).collect();
    for Member { src, .. } in &translator.members {
        let encoded = src.encode_batch(texts).context("encoding the text")?;
        rows.iter_mut().zip(encoded).for_each(|(row, ids)| row.ids.push(ids));
    }
    let too_long = rows.iter().filter(|row| row.width() > longest + 1).count();
    if too_long > 0 {
        tracing::warn!("{too_long} texts are longer than the model's {longest} tokens: only their beginning is read");
    }
    rows.iter_mut().flat_map(|row| &mut row.ids).for_each(|ids| ids.truncate(longest));
    Ok(rows)
}

fn forward(translator: &Translator<'_>, rows: &[Row]) -> Result<Vec<Guess>> {
    let Translator { members, tgt, device, framing, pad_multiple, .. } = translator;
    let log_probs = mean_of_probabilities(members.iter().enumerate().map(|(member, Member { model, src })| {
        let example = |row: &Row| Example { src: row.ids[member].clone(), tgt: Vec::new() };
        let examples: Vec<Example> = rows.iter().map(example).collect();
        let batch = framing.batch(&examples, |_| 0, (src, tgt), *pad_multiple);
        let (src, tgt_in) = (upload(batch.src, batch.src_len, device), upload(batch.tgt_in, batch.tgt_len, device));
        log_softmax(model.forward(src, tgt_in), 1)
    }));
    let [_, size] = log_probs.dims();
    let log_probs: Vec<f32> = log_probs.into_data().iter().collect();
    let special = tgt.special();
    let is_label = |id: u32| !special.is_silent(id) && id != special.unk;
    let guess = |row: &[f32]| {
        let labels = (0..).zip(row).filter(|(id, _)| is_label(*id));
        let (id, log_prob) = labels.max_by(|left, right| left.1.total_cmp(right.1)).context("there is no label")?;
        Ok(Guess { label: tgt.decode(&[id])?, probability: f64::from(*log_prob).exp() })
    };
    log_probs.chunks(size).map(guess).collect()
}
