//! Models and limits behind an address.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request as HttpRequest, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::FutureExt;
use polyglow_model::search::SearchRequest;
use polyglow_predict::translate::Request;
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;

use crate::access::Keys;
use crate::connections::Connections;
use crate::document::{Document, run_aside};
use crate::engine::{Asked, Engine, LinkedTranslation};
use crate::failure::Failure;
use crate::fields::bearer;
use crate::html::{Link, Translation};
use crate::metrics::Metrics;
use crate::routes::{Model, Reload, Routes};
use crate::{libre, numbering, page, translations};

/// How long a server that was told to stop waits for clients that do not take their answers.
const FAREWELL: Duration = Duration::from_secs(10);

/// How much may be asked.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Characters of a text; `None` for any number.
    pub characters: Option<usize>,
    /// Texts of a request; `None` for any number.
    pub texts: Option<usize>,
    /// Bytes of a request.
    pub body: usize,
    /// How long a request may take to arrive, first its head and then its body; how long its answer
    /// may take to be found, or the next sentences of a stream; and how long a client may take
    /// nothing of its answer.
    pub time: Duration,
    /// Other translations of a text, besides the best.
    pub alternatives: usize,
    /// Requests that are in work or wait at a time; more are turned away.
    pub queue: usize,
    /// Connections at a time; more wait to be let in.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            characters: Some(10_000),
            texts: Some(200),
            body: 1 << 20,
            time: Duration::from_mins(1),
            alternatives: 3,
            queue: 256,
            // Twice the queue, so that whoever is turned away is told so; half of the files that a
            // process may usually open.
            connections: 512,
        }
    }
}

/// Why a server has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was told to; all requests are answered.
    Stopped,
    /// It was told to; some clients did not take their answers for so long that they were cut off.
    CutOff,
    /// The models have failed, as when a device is lost.
    Failed,
}

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) routes: Routes,
    pub(crate) limits: Limits,
    pub(crate) keys: Keys,
    pub(crate) metrics: Arc<Metrics>,
    /// How each model is loaded again.
    reload: Vec<Reload>,
}

/// A server that can begin.
#[derive(Clone)]
pub struct Server(Arc<Shared>);

impl Server {
    /// Starts the thread that owns the models, of which there is at least one.
    ///
    /// # Panics
    /// There is none.
    pub fn new(models: Vec<Model>, limits: Limits, keys: Keys) -> Self {
        assert!(!models.is_empty(), "a server without a model");
        let routes = Routes::new(&models);
        let (runners, reload) = models
            .into_iter()
            .map(|model| (model.runner, model.reload))
            .unzip();
        let metrics = Arc::new(Metrics::new());
        let engine = Engine::start(runners, limits.queue, Arc::clone(&metrics));
        Self(Arc::new(Shared {
            engine,
            routes,
            limits,
            keys,
            metrics,
            reload,
        }))
    }

    /// Loads every model again, and puts it in the place of the one that works, without a pause. A
    /// model that cannot be loaded leaves the old one in its place, with a warning.
    pub async fn reload(&self) {
        for number in 0..self.0.reload.len() {
            let shared = Arc::clone(&self.0);
            let loaded = spawn_blocking(move || (shared.reload[number])()).await;
            let name = self.0.routes.name(number);
            match loaded.unwrap_or_else(|_| Err("loading it panicked".into())) {
                Ok(runner) => {
                    self.0.engine.replace(number, runner);
                    tracing::info!("{name} is loaded again");
                }
                Err(error) => tracing::warn!("{name} stays as it is: {error}"),
            }
        }
    }

    /// What answers requests.
    pub fn router(&self) -> Router {
        Router::new()
            .route("/", get(page::page))
            .route("/translate", post(libre::translate))
            .route("/detect", post(libre::detect))
            .route("/languages", get(libre::languages))
            .route("/health", get(libre::health))
            .route("/frontend/settings", get(libre::settings))
            .route("/translate_file", post(libre::no_files))
            .route("/suggest", post(libre::no_suggestions))
            .route("/spec", get(page::spec))
            .route("/metrics", get(metrics))
            .route("/v1/translations", post(translations::translate))
            .fallback(|| async { Failure::nothing() })
            .method_not_allowed_fallback(|| async { Failure::method() })
            .layer(DefaultBodyLimit::max(self.0.limits.body))
            .layer(from_fn_with_state(Arc::clone(&self.0), around))
            .with_state(Arc::clone(&self.0))
    }

    /// Answers requests until `stop` returns or the models fail; requests that have come are
    /// answered before it returns.
    pub async fn serve(self, listener: TcpListener, stop: impl Future<Output = ()>) -> Ended {
        let Limits {
            connections, time, ..
        } = self.0.limits;
        let mut connections = Connections::new(self.router(), connections, time);
        let ended = tokio::select! {
            never = connections.accept(&listener) => match never {},
            () = stop => Ended::Stopped,
            () = self.0.engine.failed() => Ended::Failed,
        };
        drop(listener);
        let is_late = tokio::time::timeout(time + FAREWELL, connections.end())
            .await
            .is_err();
        if is_late && ended == Ended::Stopped {
            Ended::CutOff
        } else {
            ended
        }
    }
}

impl Shared {
    /// The best translations of each sentence, through one model or two, one after the other; of no
    /// model the sentences. With `links`, the parts of the best are linked with those of the
    /// sentence.
    ///
    /// # Errors
    /// Too many requests wait; it takes too long; the models fail.
    pub(crate) async fn translate(
        &self,
        route: &[usize],
        sentences: Vec<Request>,
        n_best: usize,
        links: bool,
    ) -> Result<Vec<Vec<Translation>>, Failure> {
        let all = async {
            let mut translations: Vec<Vec<Translation>> =
                sentences.iter().map(untranslated).collect();
            if sentences.is_empty() || route.is_empty() {
                return Ok(translations);
            }
            // One for the whole way, so that nobody is turned away halfway.
            let queued = self.engine.place()?;
            for (step, &model) in route.iter().enumerate() {
                let n_best = if step + 1 == route.len() { n_best } else { 1 };
                let search = SearchRequest {
                    n_best,
                    ..SearchRequest::default()
                };
                let asked = Asked {
                    model,
                    search,
                    attention: false,
                    links,
                };
                let before: Vec<Translation> = translations
                    .into_iter()
                    .map(|mut best| best.swap_remove(0))
                    .collect();
                let requests = before
                    .iter()
                    .zip(&sentences)
                    .map(|(best, sentence)| request(best, sentence))
                    .collect();
                let answers = self.engine.translate_all(&queued, asked, requests).await?;
                translations = Vec::with_capacity(answers.len());
                for (best, before) in answers.into_iter().zip(&before) {
                    // Links of the first model are to the sentence itself; later ones go over the
                    // text between.
                    let between = Some(before).filter(|_| step > 0);
                    translations.push(
                        best.into_iter()
                            .map(|one| translation(one, between))
                            .collect(),
                    );
                }
            }
            Ok(translations)
        };
        tokio::time::timeout(self.limits.time, all)
            .await
            .unwrap_or_else(|_| Err(Failure::timeout()))
    }

    /// The best translations of each document, up to so many.
    ///
    /// # Errors
    /// As [`Self::translate`].
    pub(crate) async fn translate_documents(
        &self,
        route: &[usize],
        documents: Vec<Document>,
        n_best: usize,
    ) -> Result<Vec<Vec<String>>, Failure> {
        let links = documents.iter().any(Document::needs_links);
        let translations = self
            .translate(route, numbering::requests(&documents), n_best, links)
            .await?;
        let num_bytes = documents.iter().map(Document::num_bytes).sum::<usize>() * n_best;
        run_aside(num_bytes, move || {
            versions(&documents, &translations, n_best)
        })
        .await
    }
}

/// Each document with the best translations of its sentences, with the second of each, and so on.
fn versions(
    documents: &[Document],
    mut translations: &[Vec<Translation>],
    n_best: usize,
) -> Vec<Vec<String>> {
    let mut all = Vec::with_capacity(documents.len());
    for document in documents {
        let (own, rest) = translations.split_at(document.sentences().len());
        translations = rest;
        all.push(
            (0..n_best)
                .map(|rank| document.with(&with_rank(own, rank)))
                .collect(),
        );
    }
    all
}

/// The translations of one rank; a sentence with fewer has its last.
fn with_rank(sentences: &[Vec<Translation>], rank: usize) -> Vec<Translation> {
    let mut translations = Vec::with_capacity(sentences.len());
    for best in sentences {
        translations.push(best.get(rank).or(best.last()).cloned().unwrap_or_default());
    }
    translations
}

/// A sentence as the only translation of itself.
fn untranslated(sentence: &Request) -> Vec<Translation> {
    vec![Translation {
        text: sentence.text.clone(),
        links: Vec::new(),
    }]
}

/// A request for the translation of a text, with the numbers of its sentence, which its draws
/// depend on.
fn request(text: &Translation, sentence: &Request) -> Request {
    Request {
        text: text.text.clone(),
        number: sentence.number,
        part: sentence.part,
        ..Request::default()
    }
}

/// A translation with its links to the line that was translated, or if that was a translation
/// itself to what it is of.
fn translation(linked: LinkedTranslation, between: Option<&Translation>) -> Translation {
    let links = linked
        .links
        .into_iter()
        .map(|(source, target)| Link { source, target })
        .collect();
    let links = between.map_or_else(
        || Vec::clone(&links),
        |between| over(&between.links, &links),
    );
    Translation {
        text: linked.translation.text,
        links,
    }
}

/// Links over a text between: `first` leads to it, and `second` from it.
fn over(first: &[Link], second: &[Link]) -> Vec<Link> {
    let mut links = Vec::new();
    for link in second {
        for before in first {
            if before.target.start < link.source.end && link.source.start < before.target.end {
                links.push(Link {
                    source: before.source.clone(),
                    target: link.target.clone(),
                });
            }
        }
    }
    links
}

/// Around every request: what lets pages of other places ask, a line in the log without any text,
/// and counts.
async fn around(State(server): State<Arc<Shared>>, request: HttpRequest, next: Next) -> Response {
    let started = Instant::now();
    let method = request.method().clone();
    let path = request.extensions().get::<MatchedPath>().cloned();
    let path = path
        .as_ref()
        .map_or("other", MatchedPath::as_str)
        .to_owned();
    server.metrics.begin();
    let counted = Counted {
        server: Arc::clone(&server),
        path,
        started,
        status: None,
    };
    let mut response = if method == Method::OPTIONS {
        StatusCode::NO_CONTENT.into_response()
    } else {
        caught(next.run(request)).await
    };
    counted.answered(&method, response.status());
    for (name, value) in [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "Authorization, Content-Type",
        ),
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST"),
        (header::ACCESS_CONTROL_MAX_AGE, "1728000"),
        (HeaderName::from_static("x-content-type-options"), "nosniff"),
    ] {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The answer, or status 500 if finding it panics.
async fn caught(answer: impl Future<Output = Response>) -> Response {
    AssertUnwindSafe(answer)
        .catch_unwind()
        .await
        .unwrap_or_else(|_| Failure::broken().into_response())
}

/// A request that is counted when it ends, also if the client goes away before.
struct Counted {
    server: Arc<Shared>,
    path: String,
    started: Instant,
    status: Option<StatusCode>,
}

impl Counted {
    fn answered(mut self, method: &Method, status: StatusCode) {
        self.status = Some(status);
        let milliseconds = self.started.elapsed().as_millis();
        tracing::info!(
            "{method} {} {} in {milliseconds} ms",
            self.path,
            status.as_u16()
        );
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // 499: the client has gone, as other servers write it.
        let status = self.status.map_or(499, |status| status.as_u16());
        self.server
            .metrics
            .end(&self.path, status, self.started.elapsed());
    }
}

async fn metrics(
    State(server): State<Arc<Shared>>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    server.keys.check_reader(bearer(&headers).as_deref())?;
    let text = server
        .metrics
        .text_format()
        .map_err(|_| Failure::broken())?;
    Ok((
        [(
            header::CONTENT_TYPE,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        )],
        text,
    )
        .into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_over_a_text_between() {
        let link = |source: std::ops::Range<usize>, target| Link { source, target };
        let first = [link(0..3, 4..7), link(4..9, 0..3)];
        let second = [link(0..7, 0..2), link(4..7, 3..5), link(8..9, 6..7)];
        let expected = [link(0..3, 0..2), link(4..9, 0..2), link(0..3, 3..5)];
        assert_eq!(over(&first, &second), expected);
    }

    #[tokio::test]
    async fn a_panic_is_an_answer() {
        let answer = caught(async { panic!("this is a test") }).await;
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
}
