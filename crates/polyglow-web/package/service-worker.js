// Keeps the files of this folder, so that the page works without a network. Another export has another version, and one in another
// folder of the same site has another scope, whose files are none of ours.
const version = "@VERSION@";
const files = @FILES@;
const ours = `polyglow ${self.registration.scope} `;
const kept = ours + version;

self.addEventListener("install", event => {
  // From the server: what the browser still has of another version does not belong to this one.
  const fresh = files.map(name => new Request(name, { cache: "reload" }));
  event.waitUntil(caches.open(kept).then(cache => cache.addAll(fresh)).then(() => self.skipWaiting()));
});

self.addEventListener("activate", event => {
  const old = names => names.filter(name => name.startsWith(ours) && name !== kept);
  event.waitUntil(caches.keys().then(names => Promise.all(old(names).map(name => caches.delete(name)))).then(() => self.clients.claim()));
});

self.addEventListener("fetch", event => {
  if (event.request.method !== "GET") return;
  const found = caches.open(kept).then(cache => cache.match(event.request, { ignoreSearch: true }));
  event.respondWith(found.then(found => found ?? fetch(event.request)));
});
