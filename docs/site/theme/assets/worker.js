// Browsers start no workers from files, and the search is one. Where the site is opened as files, a hidden frame runs the
// worker's script: what it posts goes to the page, and what the page posts goes to it.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.ready = new Promise((resolve) => {
        const begin = () => {
          document.body.append(this.frame);
          const inside = this.frame.contentWindow;
          inside.postMessage = (data) => this.deliver(this, this.onmessage, data);
          // Scripts of a worker load others by this function and wait for them.
          inside.importScripts = (...scripts) => Promise.all(scripts.map((script) => this.load(new URL(script, url))));
          this.load(url).then(resolve);
        };
        if (document.body) begin();
        else addEventListener("DOMContentLoaded", begin);
      });
    }

    load(url) {
      const script = this.frame.contentDocument.createElement("script");
      script.src = url;
      const loaded = new Promise((resolve, reject) => Object.assign(script, { onload: resolve, onerror: reject }));
      this.frame.contentDocument.body.append(script);
      return loaded;
    }

    deliver(target, handler, data) {
      const event = new MessageEvent("message", { data });
      target.dispatchEvent(event);
      if (handler) handler.call(target, event);
    }

    postMessage(data) {
      this.ready.then(() => this.deliver(this.frame.contentWindow, this.frame.contentWindow.onmessage, data));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
