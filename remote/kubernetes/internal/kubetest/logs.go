//go:build linux

package kubetest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// serve answers the API server's questions for logs, over TLS, and returns the port. It ends with the test.
func (k *Kubelet) serve() int {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", k.logOf)
	s := httptest.NewTLSServer(mux)
	k.t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	u, err := url.Parse(s.URL)
	if err != nil {
		k.t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		k.t.Fatal(err)
	}
	return port
}

// logOf writes what the process of a pod has written, and with follow=true what it writes until it has ended.
func (k *Kubelet) logOf(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	var found *pod
	for _, p := range k.pods {
		if p.object.Namespace == r.PathValue("namespace") && p.object.Name == r.PathValue("pod") {
			found = p
		}
	}
	k.mu.Unlock()
	if found == nil {
		http.Error(w, "no such pod", http.StatusNotFound)
		return
	}
	log, err := os.Open(filepath.Join(found.dir, "log"))
	if err != nil {
		http.Error(w, "the container has not begun", http.StatusBadRequest)
		return
	}
	defer log.Close()
	if err := found.copyLog(r.Context(), w, log, r.URL.Query().Get("follow") == "true"); err != nil && !errors.Is(err, context.Canceled) {
		k.t.Logf("the log of %s: %v", found.object.Name, err)
	}
}

// copyLog copies a log to its end, and with follow to the end of its process.
func (p *pod) copyLog(ctx context.Context, w http.ResponseWriter, log io.Reader, follow bool) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		ended := !follow
		select {
		case <-p.ended:
			ended = true
		default:
		}
		if _, err := io.Copy(w, log); err != nil || ended {
			return err
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-ticker.C:
		case <-p.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
