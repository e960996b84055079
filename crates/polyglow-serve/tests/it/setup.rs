//! A small model, and a server with it.

use std::sync::OnceLock;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use polyglow_predict::runner::Runner;
use polyglow_serve::{Keys, Limits, Model, Server};
use polyglow_train::{Config, Silent, Stop, Training, device, load_runner};
use serde_json::Value;
use tower::ServiceExt;

const CONFIG: &str = "data.corpus = 'digits'
    tokenizer.kind = 'word'
    model = { d_model = 32, d_ff = 32, num_heads = 2, num_encoder_layers = 1, num_decoder_layers = 1 }
    train = { max_steps = 60, max_tokens = 400, lr = 1e-2, warmup_steps = 10 }";

/// A model that reads digits and writes their names, well enough to give different answers to
/// different lines.
pub(crate) fn runner() -> Runner {
    static RUNNER: OnceLock<Runner> = OnceLock::new();
    RUNNER.get_or_init(|| trained(&[])).clone()
}

/// A model that learned next to nothing, and panics if it is given more than 16 tokens.
pub(crate) fn fragile() -> Runner {
    static RUNNER: OnceLock<Runner> = OnceLock::new();
    let train = || {
        let mut runner = trained(&[
            "model.position='learned'",
            "data.max_len=16",
            "train.max_steps=2",
        ]);
        // The model was trained for fewer tokens: a caller that allows more has to split the text.
        runner.longest = 1000;
        runner
    };
    RUNNER.get_or_init(train).clone()
}

/// A model that knows only some of the words, and writes `<unk>` for the rest.
pub(crate) fn with_few_words() -> Runner {
    static RUNNER: OnceLock<Runner> = OnceLock::new();
    RUNNER
        .get_or_init(|| trained(&["tokenizer.vocab_size=10"]))
        .clone()
}

fn trained(overrides: &[&str]) -> Runner {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let overrides: Vec<String> = overrides.iter().map(|&one| one.to_owned()).collect();
    let config = Config::from_text(CONFIG, &overrides).expect("it is a config");
    let mut training = Training::prepare(config, dir.path(), &mut Silent).expect("it can start");
    training
        .run(&Stop::default(), &mut Silent)
        .expect("it trains");
    load_runner(dir.path(), &device::open("flex").expect("the CPU")).expect("it is there")
}

/// The model of [`runner`], for a pair of languages.
pub(crate) fn model(source: &str, target: &str) -> Model {
    let reload = Box::new(|| Ok(runner()));
    Model {
        source: source.to_owned(),
        target: target.to_owned(),
        runner: runner(),
        reload,
    }
}

/// A server from English to German with another model.
pub(crate) fn server_with(runner: Runner, limits: Limits) -> Server {
    let model = Model {
        runner,
        ..model("en", "de")
    };
    Server::new(vec![model], limits, Keys::default())
}

/// A server from English to German.
pub(crate) fn server() -> Server {
    Server::new(vec![model("en", "de")], Limits::default(), Keys::default())
}

/// The response of a server.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// Makes sure that this is an error with this status, and returns its message.
    pub(crate) fn error(&self, status: u16) -> String {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        self.json()["error"]
            .as_str()
            .expect("an error has a message")
            .to_owned()
    }
}

pub(crate) async fn send(router: &Router, request: Request<Body>) -> Answer {
    let response = router.clone().oneshot(request).await.expect("it answers");
    let (status, headers) = (response.status(), response.headers().clone());
    let body = to_bytes(response.into_body(), usize::MAX)
        .await
        .expect("a whole answer");
    Answer {
        status,
        headers,
        text: String::from_utf8(body.to_vec()).expect("text"),
    }
}

pub(crate) async fn get(router: &Router, path: &str) -> Answer {
    send(
        router,
        Request::get(path).body(Body::empty()).expect("a request"),
    )
    .await
}

pub(crate) async fn post(
    router: &Router,
    path: &str,
    content_type: &str,
    body: impl Into<Body>,
) -> Answer {
    send(
        router,
        Request::post(path)
            .header("content-type", content_type)
            .body(body.into())
            .expect("a request"),
    )
    .await
}

pub(crate) async fn post_json(router: &Router, path: &str, body: &Value) -> Answer {
    post(router, path, "application/json", body.to_string()).await
}
