//! Connections: how many at a time, and how long each may keep us waiting.

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1::Builder;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Sleep;

/// How long nobody is let in when there are no more file descriptors or no more memory for it.
const PAUSE: Duration = Duration::from_millis(200);

/// Those who ask.
pub(crate) struct Connections {
    router: Router,
    /// How long the head of a request may take to arrive, the next one on the same connection
    /// included, and how long a client may take nothing of its answer.
    time: Duration,
    places: Arc<Semaphore>,
    open: JoinSet<()>,
    /// Dropped when no more requests are taken.
    taking: watch::Sender<()>,
}

impl Connections {
    /// As many as `most` at a time; others wait until there is a place, as long as they like.
    pub(crate) fn new(router: Router, most: usize, time: Duration) -> Self {
        let places = Arc::new(Semaphore::new(most));
        Self {
            router,
            time,
            places,
            open: JoinSet::new(),
            taking: watch::channel(()).0,
        }
    }

    /// Lets clients in, until it is dropped.
    pub(crate) async fn accept(&mut self, listener: &TcpListener) -> Infallible {
        loop {
            let (stream, place) = accept(listener, &self.places).await;
            // What has ended is forgotten.
            while self.open.try_join_next().is_some() {}
            // A part of an answer does not wait until the client has told that it got the one
            // before.
            let _ = stream.set_nodelay(true);
            self.open.spawn(serve(
                stream,
                self.router.clone(),
                self.time,
                self.taking.subscribe(),
                place,
            ));
        }
    }

    /// Takes no more requests, and returns when those that have come are answered. Dropped before,
    /// it cuts them off.
    pub(crate) async fn end(mut self) {
        drop(self.taking);
        while self.open.join_next().await.is_some() {}
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> (TcpStream, OwnedSemaphorePermit) {
    let place = Arc::clone(places)
        .acquire_owned()
        .await
        .expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, place),
            // Only that client is gone.
            Err(error) if is_of_a_client(&error) => {}
            Err(error) => {
                tracing::warn!("nobody can be let in at the moment: {error}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

fn is_of_a_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset
    )
}

/// Answers the requests of a client.
async fn serve(
    stream: TcpStream,
    router: Router,
    time: Duration,
    mut taking: watch::Receiver<()>,
    _place: OwnedSemaphorePermit,
) {
    let stream = TokioIo::new(Patient {
        stream,
        time,
        until: None,
    });
    let mut builder = Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(time);
    let mut connection = pin!(builder.serve_connection(stream, TowerToHyperService::new(router)));
    // What a client does wrong, or that it goes away, is no matter of the log.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = taking.changed() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// A connection that is given up when its client takes nothing for so long.
struct Patient {
    stream: TcpStream,
    time: Duration,
    /// The end of our patience, while the client takes nothing.
    until: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    fn patiently<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.until = None;
            return written;
        }
        let time = self.time;
        let until = self
            .until
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(time)));
        until
            .as_mut()
            .poll(context)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.patiently(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.patiently(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
