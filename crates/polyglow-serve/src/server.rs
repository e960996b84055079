//! A server: its models, its routes, its start and its end.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;

use crate::access::Keys;
use crate::connections::Connections;
use crate::engine::Engine;
use crate::failure::Failure;
use crate::fields::bearer;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::middleware::observe;
use crate::routes::{Model, Reload, Routes};
use crate::{libre, page, translations};

/// The time that open requests have when the server stops, besides the time that a request may
/// take: clients must also receive the answers.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);

/// Why a server has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was stopped, and all requests are answered.
    Stopped,
    /// It was stopped, and some clients that did not take their answers in time were cut off.
    CutOff,
    /// The models have failed, as when a device is lost.
    Failed,
}

/// The state that all requests share.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) routes: Routes,
    pub(crate) limits: Limits,
    pub(crate) keys: Keys,
    pub(crate) metrics: Arc<Metrics>,
    /// A function for each model that loads it again.
    reload: Vec<Reload>,
}

/// A server that is ready to answer requests.
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
        let mut runners = Vec::with_capacity(models.len());
        let mut reload = Vec::with_capacity(models.len());
        for model in models {
            runners.push(model.runner);
            reload.push(model.reload);
        }
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

    /// Loads every model again and replaces the one in use, without a pause. If a model cannot be
    /// loaded, the one in use stays, and a warning is logged.
    pub async fn reload(&self) {
        for model in 0..self.0.reload.len() {
            let shared = Arc::clone(&self.0);
            // A blocking thread, because reading a model takes seconds, in which this one answers
            // requests.
            let loaded = spawn_blocking(move || (shared.reload[model])()).await;
            let name = self.0.routes.name(model);
            match loaded.unwrap_or_else(|_| Err("loading it panicked".into())) {
                Ok(runner) => {
                    self.0.engine.replace(model, runner);
                    tracing::info!("{name} is loaded again");
                }
                Err(error) => tracing::warn!("{name} stays as it is: {error}"),
            }
        }
    }

    /// Returns the service that answers requests, for [`Self::serve`] or a server of the caller's.
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
            .fallback(|| async { Failure::not_found() })
            .method_not_allowed_fallback(|| async { Failure::method_not_allowed() })
            .layer(DefaultBodyLimit::max(self.0.limits.body))
            // After the fallbacks, so that it wraps them, too.
            .layer(from_fn_with_state(Arc::clone(&self.0), observe))
            .with_state(Arc::clone(&self.0))
    }

    /// Answers requests until `stop` returns or the models fail. Requests that have arrived by then
    /// are answered before it returns.
    pub async fn serve(self, listener: TcpListener, stop: impl Future<Output = ()>) -> Ended {
        let time = self.0.limits.time;
        let mut connections = Connections::new(self.router(), self.0.limits.connections, time);
        let ended = tokio::select! {
            never = connections.accept(&listener) => match never {},
            () = stop => Ended::Stopped,
            () = self.0.engine.failed() => Ended::Failed,
        };
        // Clients that come now are refused, and can go to another server, while the last answers
        // are on their way.
        drop(listener);
        let finished = tokio::time::timeout(time + SHUTDOWN_GRACE, connections.finish()).await;
        if finished.is_err() && ended == Ended::Stopped {
            Ended::CutOff
        } else {
            ended
        }
    }
}

/// `GET /metrics`
async fn metrics(
    State(server): State<Arc<Shared>>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    server.keys.check_reader(bearer(&headers).as_deref())?;
    let text = server.metrics.encode().map_err(|_| Failure::internal())?;
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, content_type)], text).into_response())
}
