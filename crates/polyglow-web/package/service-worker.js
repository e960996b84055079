// Keeps the files of this folder, so that the page works without a network. Another export has another version.
const version = "polyglow @VERSION@";
const files = @FILES@;

self.addEventListener("install", event => {
  event.waitUntil(caches.open(version).then(cache => cache.addAll(files)).then(() => self.skipWaiting()));
});

self.addEventListener("activate", event => {
  const old = names => names.filter(name => name.startsWith("polyglow ") && name !== version);
  event.waitUntil(caches.keys().then(names => Promise.all(old(names).map(name => caches.delete(name)))).then(() => self.clients.claim()));
});

self.addEventListener("fetch", event => {
  if (event.request.method !== "GET") return;
  event.respondWith(caches.match(event.request, { ignoreSearch: true }).then(found => found ?? fetch(event.request)));
});
