//! Text from a language model, token by token.

use polyglow_model::Generate;
use polyglow_model::search::{Incremental, SearchRequest, Sentence, SpecialTokens, search};

use crate::device::upload;
use crate::error::{Context, Result, ensure, failed, usage, with_hint};
use crate::runner::Runner;
use crate::translate::{Scores, Translated};

impl<M: Generate> Runner<M> {
    /// Writes up to `search.n_best` texts that begin with `prompt`, without line breaks. They have at
    /// most `max_len` tokens, prompt included; with `None` the limit is that of the models.
    ///
    /// # Errors
    /// `search` or `max_len` is out of range; the prompt is too long, or has words or characters
    /// that the vocabulary lacks.
    pub fn generate(
        &self,
        prompt: &str,
        max_len: Option<usize>,
        search: &SearchRequest,
    ) -> Result<Vec<Translated>> {
        let config = self.search_for(search)?;
        let sentence = self.continuation(prompt, max_len)?;
        let special = self.tgt.special();
        let mut sources = Vec::with_capacity(self.members.len());
        for member in &*self.members {
            // A language model only uses the number of rows of the source.
            let source = upload(vec![special.bos as i32], 1, &self.device);
            sources.push((&member.model, source));
        }
        // No text has these tokens; EOS ends it.
        let mut next = Incremental::new(sources, &[special.pad, special.bos, special.unk]);
        let special_tokens = SpecialTokens {
            bos: special.bos,
            eos: special.eos,
        };
        let hypotheses = self::search(&mut next, &[sentence], &config, special_tokens).remove(0);
        let mut texts = Vec::with_capacity(search.n_best);
        for hypothesis in hypotheses.iter().take(search.n_best) {
            let text = self.tgt.decode(&hypothesis.ids);
            let text = text.context("decoding a text")?.replace(['\n', '\r'], " ");
            let scores = search.scores.then_some(Scores {
                log_prob: hypothesis.log_prob,
                score: hypothesis.score,
            });
            texts.push(Translated { text, scores });
        }
        Ok(texts)
    }

    /// Returns the prefix and the limits of the texts that continue a prompt.
    fn continuation(&self, prompt: &str, max_len: Option<usize>) -> Result<Sentence> {
        let prefix = self.tgt.encode(prompt).context("encoding the prompt")?;
        ensure!(
            !prefix.contains(&self.tgt.special().unk),
            "the prompt `{prompt}` has words or characters that the model's vocabulary lacks"
        );
        let longest = self.longest;
        let most = max_len.unwrap_or(longest);
        if most > longest {
            let error = failed!(
                "`--max-len {most}`: the model reads and writes {longest} tokens, without BOS and EOS"
            );
            return Err(with_hint(
                usage(error),
                "lower `--max-len`, or leave it out",
            ));
        }
        let len = prefix.len();
        ensure!(
            len <= most,
            "the prompt has {len} tokens, which leaves none of the {most} for the text"
        );
        Ok(Sentence {
            min_len: 0,
            // EOS included.
            max_len: most + 1,
            prefix,
            ..Sentence::default()
        })
    }
}
