//! The boundary to JavaScript: JSON in, JSON out. `package/index.js` runs it in a worker and gives it
//! types.

use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsError, JsValue};

use crate::translator::TranslationRequest;

/// The global variable in which a panic leaves its message, for the worker that finds out that the
/// instance is dead.
const PANIC: &str = "polyglowPanic";

/// A model in use, as JavaScript sees it.
#[wasm_bindgen(js_name = Translator)]
pub struct Exported(crate::Translator);

#[wasm_bindgen(js_class = Translator)]
impl Exported {
    /// As [`crate::Translator::new`].
    ///
    /// # Errors
    /// As there.
    #[wasm_bindgen(constructor)]
    pub fn new(
        config: &str,
        tokenizer: &[u8],
        tgt_tokenizer: Option<Box<[u8]>>,
        weights: &[u8],
    ) -> Result<Exported, JsError> {
        std::panic::set_hook(Box::new(|panic| {
            // Nothing more can be done for a message that cannot be left.
            let _ = js_sys::Reflect::set(
                &js_sys::global(),
                &JsValue::from(PANIC),
                &JsValue::from(panic.to_string()),
            );
        }));
        Ok(Self(crate::Translator::new(
            config,
            tokenizer,
            tgt_tokenizer.as_deref(),
            weights,
        )?))
    }

    /// As [`crate::Translator::parts`]: a list of `{"kept": ..}` and `{"sentence": ..}`.
    ///
    /// # Errors
    /// None that is known.
    pub fn parts(&self, text: &str) -> Result<String, JsError> {
        Ok(serde_json::to_string(&self.0.parts(text))?)
    }

    /// As [`crate::Translator::join`], with a list of texts.
    ///
    /// # Errors
    /// It is no such list.
    pub fn join(&self, text: &str, translations: &str) -> Result<String, JsError> {
        let translations: Vec<String> = serde_json::from_str(translations)?;
        Ok(self.0.join(text, &translations))
    }

    /// As [`crate::Translator::translate`], with a [`TranslationRequest`] in JSON.
    ///
    /// # Errors
    /// As there; it is no such JSON.
    pub fn translate(&self, request: &str, progress: &js_sys::Function) -> Result<String, JsError> {
        let request = TranslationRequest::parse(request)?;
        let translations = self.0.translate(&request, &mut |done| {
            // A page that fails to show progress must not fail the translation.
            let _ = progress.call1(&JsValue::NULL, &JsValue::from(done as u32));
        })?;
        Ok(serde_json::to_string(&translations)?)
    }

    /// As [`crate::Translator::attention`].
    ///
    /// # Errors
    /// As there.
    pub fn attention(&self, line: &str, translation: &str) -> Result<String, JsError> {
        Ok(serde_json::to_string(
            &self.0.attention(line, translation)?,
        )?)
    }

    /// As [`crate::Translator::beam`].
    ///
    /// # Errors
    /// As there.
    pub fn beam(&self, line: &str, beam_size: usize) -> Result<String, JsError> {
        Ok(serde_json::to_string(&self.0.beam(line, beam_size)?)?)
    }
}
