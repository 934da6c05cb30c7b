package edlcmd

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// receivedSpans is the file in which a collector of a script notes the spans that it receives: TRACE NAME.
const receivedSpans = "spans.txt"

// startCollector starts a collector of traces, and puts its URL into a variable: collector NAME.
func startCollector(ts *testscript.TestScript, _ bool, args []string) {
	file, err := os.Create(ts.MkAbs(receivedSpans))
	ts.Check(err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		b, err := io.ReadAll(q.Body)
		m := &tracepb.TracesData{}
		if err != nil || q.URL.Path != "/v1/traces" || proto.Unmarshal(b, m) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		var text strings.Builder
		for _, of := range m.ResourceSpans {
			for _, scope := range of.ScopeSpans {
				for _, s := range scope.Spans {
					text.WriteString(hex.EncodeToString(s.TraceId) + " " + s.Name + "\n")
				}
			}
		}
		if _, err := file.WriteString(text.String()); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	ts.Defer(func() {
		server.Close()
		_ = file.Close()
	})
	ts.Setenv(args[0], server.URL)
}

// spans checks that some trace has a span of each name: spans NAME...
func spans(ts *testscript.TestScript, _ bool, args []string) {
	text := ts.ReadFile(receivedSpans)
	names := map[string]map[string]bool{}
	for line := range strings.Lines(text) {
		trace, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if names[trace] == nil {
			names[trace] = map[string]bool{}
		}
		names[trace][name] = true
	}
	for _, of := range names {
		lacks := false
		for _, name := range args {
			lacks = lacks || !of[name]
		}
		if !lacks {
			return
		}
	}
	ts.Fatalf("no trace has spans %q:\n%s", args, text)
}
