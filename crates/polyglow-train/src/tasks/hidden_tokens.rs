//! Hidden tokens: which token stood where a text shows a mask (Devlin et al., 2019).

use std::sync::Arc;

use burn::tensor::Device;
use polyglow_data::batch::MaskedBatch;
use polyglow_data::masking::Masked;
use polyglow_data::pair::Pair;
use polyglow_data::sources::MaskedSource;
use polyglow_model::{Model, Predict, Targets, Text};
use polyglow_predict::device::{upload_rows, upload_targets};
use polyglow_predict::error::{Context, Result};
use polyglow_predict::evaluation::Evaluation;
use polyglow_predict::runner::Runner;
use polyglow_predict::teacher_forcing::{Forced, at_targets};

use super::{BatchSize, ID_BYTES, LongLines, Loss, Setting, Task, Validation};
use crate::workload::BatchShape;

/// Learning to find hidden tokens.
pub struct HiddenTokens {
    source: Arc<MaskedSource>,
    setting: Setting,
    pad_id: u32,
}

impl HiddenTokens {
    /// Learns from the texts of `source`.
    pub fn new(setting: Setting, source: MaskedSource) -> Self {
        let pad_id = setting.tokenizers.tgt.special().pad;
        Self {
            source: Arc::new(source),
            setting,
            pad_id,
        }
    }
}

impl Task for HiddenTokens {
    type Model = Model;
    type Source = MaskedSource;
    type Inputs = (Text, Targets);

    fn source(&self) -> &Arc<MaskedSource> {
        &self.source
    }

    fn size(&self, batch: &MaskedBatch) -> BatchSize {
        let MaskedBatch {
            shown,
            asked,
            num_asked,
            ..
        } = batch;
        let bytes = ID_BYTES * (shown.ids.len() + asked.len());
        let shape = BatchShape {
            rows: shown.num_rows(),
            src_len: shown.len,
            tgt_len: shown.len,
        };
        // What is predicted are the tokens of the text itself, asked for or not.
        BatchSize {
            shape,
            real_positions: 2 * shown.num_real(),
            targets: *num_asked,
            bytes,
        }
    }

    fn upload(&self, batch: &MaskedBatch, device: &Device) -> Self::Inputs {
        let targets = upload_targets(&batch.asked, self.pad_id, device);
        (
            Text {
                ids: upload_rows(&batch.shown, device),
            },
            targets,
        )
    }

    fn loss(&self, model: &Model, (text, targets): Self::Inputs) -> Loss {
        let smoothing = self.setting.plan.config.train.label_smoothing;
        Predict::<Text>::predict(model, text)
            .loss(targets, smoothing, self.pad_id)
            .into()
    }

    fn uniform_loss(&self) -> Option<f64> {
        Some(self.setting.uniform_loss())
    }

    fn validate(&self, model: Model) -> Result<Option<Validation>> {
        self.setting.validate(model)
    }
}

/// Hides tokens of each text, the same in every call, and scores how they are found. A text that is
/// longer than the models is cut, with a warning.
///
/// # Errors
/// A text cannot be encoded.
pub(super) fn evaluate(runner: &Runner, pairs: &[Pair]) -> Result<Evaluation> {
    let texts: Vec<&str> = pairs.iter().map(|pair| pair.tgt.as_str()).collect();
    let longest = runner.longest;
    let mut rows: Vec<(u64, Vec<u32>)> = (0..)
        .zip(
            runner
                .tgt
                .encode_batch(&texts)
                .context("encoding the text")?,
        )
        .collect();
    let truncated: Vec<bool> = rows.iter().map(|(_, ids)| ids.len() > longest).collect();
    LongLines::from_cut(truncated.iter().copied()).warn("text", longest, "scored");
    let (special, vocab_size) = (runner.tgt.special(), runner.tgt.vocab_size());
    for (_, ids) in &mut rows {
        ids.truncate(longest);
    }
    let mut forced = runner.shortest_first(
        &rows,
        |(_, ids)| ids.len() + 1,
        |rows| {
            let hide =
                |&&(key, ref ids): &&(u64, Vec<u32>)| Masked::new(ids, special, vocab_size, key);
            let texts: Vec<Masked> = rows.iter().map(hide).collect();
            let MaskedBatch { shown, asked, .. } =
                MaskedBatch::new(&texts, special, runner.pad_multiple);
            let ids = upload_rows(&shown, &runner.device);
            let log_probs = runner.log_probs(|_, member| {
                Predict::<Text>::predict(&member.model, Text { ids: ids.clone() }).logits()
            });
            let found = at_targets(&log_probs, asked, shown.len, Some(special.pad), &[]);
            Ok(found.iter().map(|row| Forced::new(row)).collect())
        },
    )?;
    forced
        .iter_mut()
        .zip(truncated)
        .for_each(|(forced, truncated)| forced.truncated = truncated);
    Ok(Evaluation::of_forced(forced))
}
