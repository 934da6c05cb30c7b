package tracing

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
)

// A Collector is where traces are sent: to an OTLP receiver, as protobuf over HTTP.
type Collector struct {
	URL    string            // with the path, such as http://127.0.0.1:4318/v1/traces; empty: nowhere
	Header map[string]string // of each request: it may have secrets, so it is in no flag
	TLS    *tls.Config       // nil: that of the system
}

// tracesPath is where receivers take traces, below their base URL.
const tracesPath = "/v1/traces"

// CollectorOf is the collector at a base URL or, if that is empty, the one that the variables of OpenTelemetry name: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT with its whole path, else
// OTEL_EXPORTER_OTLP_ENDPOINT. Headers are in OTEL_EXPORTER_OTLP_HEADERS (key=value, divided by commas, values escaped as in URLs), and certificates of authorities in the
// file OTEL_EXPORTER_OTLP_CERTIFICATE; those with TRACES before the last word come first. The URL is empty if nothing names one.
func CollectorOf(base string, env func(string) string) (c Collector, err error) {
	of := func(name string) (string, string) {
		for _, key := range []string{"OTEL_EXPORTER_OTLP_TRACES_" + name, "OTEL_EXPORTER_OTLP_" + name} {
			if v := env(key); v != "" {
				return v, key
			}
		}
		return "", ""
	}
	where, whole := "--otlp", false
	if base == "" {
		base, where = of("ENDPOINT")
		whole = strings.Contains(where, "TRACES")
	}
	if base == "" {
		return c, nil
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return c, fault.E(fault.InvalidArgument, fault.At(where), fault.Got("no URL of a collector"), fault.Want("such as http://127.0.0.1:4318, which takes OTLP over HTTP"),
			fault.Hint("credentials go into OTEL_EXPORTER_OTLP_HEADERS"))
	}
	if !whole && !strings.HasSuffix(u.Path, tracesPath) {
		u = u.JoinPath(tracesPath)
	}
	c.URL, c.Header = u.String(), map[string]string{}
	list, from := of("HEADERS")
	for pair := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if key = strings.TrimSpace(key); !ok || key == "" || err != nil || strings.ContainsAny(key+value, "\r\n\x00") {
			return c, fault.E(fault.InvalidArgument, fault.At(from), fault.Got("a header that is not key=value"), fault.Want("such as authorization=Bearer%20..., with commas between several"))
		}
		c.Header[key] = value
	}
	if file, from := of("CERTIFICATE"); file != "" {
		b, err := os.ReadFile(file)
		pool := x509.NewCertPool()
		if err != nil || !pool.AppendCertsFromPEM(b) {
			return c, fault.E(fault.InvalidArgument, fault.At(from), fault.Got("no certificates in "+fault.Quote(file)), fault.Want("a PEM file"), fault.Cause(err))
		}
		c.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	}
	return c, nil
}

// Bounds of what waits for the collector.
const (
	maxQueued  = 50_000 // spans; when there are more, the oldest are given up
	maxRequest = 2_000  // spans of one request
	maxAnswer  = 64 << 10
	sendTime   = 10 * time.Second
	firstPause = time.Second // after a request that has failed; each further one doubles it
	lastPause  = 30 * time.Second
)

// An exporter sends spans to a collector, one request at a time. A collector that does not answer costs nobody anything but what waits for it, which is bounded.
type exporter struct {
	to       Collector
	client   *http.Client
	resource *tracepb.ResourceSpans // without spans
	log      *slog.Logger
	spans    *prometheus.CounterVec
	wake     chan struct{} // holds a value when there is something to send

	mu      sync.Mutex
	queue   []*tracepb.Span
	sending int           // spans at the front of the queue that are under way
	idle    chan struct{} // closed when nothing waits; replaced when something does
	lost    int           // spans that were given up since the collector has failed
	failing bool          // it was told
}

func newExporter(cfg Config) *exporter {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig, transport.MaxIdleConnsPerHost = cfg.Collector.TLS, 1
	e := &exporter{to: cfg.Collector, log: cfg.Log, wake: make(chan struct{}, 1), idle: make(chan struct{}),
		client: &http.Client{Transport: transport, Timeout: sendTime, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		spans:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "edl_trace_spans_total", Help: "Spans of traced rounds, by what became of them."}, []string{"outcome"}),
		resource: &tracepb.ResourceSpans{Resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{text("service.name", "edl"), text("service.version", cfg.Version)}},
			ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: "github.com/edl-go/edl/remote/tracing", Version: cfg.Version}}}}}
	close(e.idle)
	return e
}

// add has spans sent.
func (e *exporter) add(spans []*tracepb.Span) {
	if len(spans) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) == 0 {
		e.idle = make(chan struct{})
	}
	e.queue = append(e.queue, spans...)
	if more := len(e.queue) - e.sending - maxQueued; more > 0 {
		e.queue = append(e.queue[:e.sending:e.sending], e.queue[e.sending+more:]...)
		e.giveUp(more)
	}
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// giveUp counts spans that are not sent. e.mu is held.
func (e *exporter) giveUp(n int) {
	e.lost += n
	e.spans.WithLabelValues("lost").Add(float64(n))
}

// run sends until ctx ends.
func (e *exporter) run(ctx context.Context) {
	defer e.client.CloseIdleConnections()
	pause := firstPause
	for {
		e.mu.Lock()
		n := min(len(e.queue), maxRequest)
		some := e.queue[:n:n]
		e.sending = n
		if n == 0 {
			select {
			case <-e.idle:
			default:
				close(e.idle)
			}
		}
		e.mu.Unlock()
		if n == 0 {
			select {
			case <-e.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		again, err := e.post(ctx, some)
		if ctx.Err() != nil {
			return
		}
		e.note(n, again, err)
		if !again {
			pause = firstPause
			continue
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		pause = min(2*pause, lastPause)
	}
}

// note takes spans off the queue that were sent or refused, and says once that the collector fails, and that it takes spans again.
func (e *exporter) note(n int, again bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sending = 0
	if !again {
		e.queue = e.queue[n:]
		if err != nil {
			e.giveUp(n)
		} else {
			e.spans.WithLabelValues("sent").Add(float64(n))
		}
	}
	switch {
	case err != nil && !e.failing:
		e.failing = true
		e.log.Warn("traces cannot be sent; jobs go on, and the last spans are kept for the collector", "spans", maxQueued, "error", err)
	case err == nil && e.failing:
		e.failing = false
		e.log.Info("traces are sent again", "lost_spans", e.lost)
		e.lost = 0
	}
}

// post sends one request. again says that another try may help.
func (e *exporter) post(ctx context.Context, spans []*tracepb.Span) (again bool, err error) {
	m := &tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{Resource: e.resource.Resource,
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: e.resource.ScopeSpans[0].Scope, Spans: spans}}}}} // on the wire an ExportTraceServiceRequest
	body, err := proto.Marshal(m)
	if err != nil {
		return false, fault.Wrap(fault.Internal, "traces", err)
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, e.to.URL, bytes.NewReader(body))
	if err != nil {
		return false, fault.Wrap(fault.InvalidArgument, "traces", err)
	}
	for key, value := range e.to.Header {
		q.Header.Set(key, value)
	}
	q.Header.Set("Content-Type", "application/x-protobuf")
	a, err := e.client.Do(q)
	if err != nil {
		return true, fault.Wrap(fault.Unavailable, "traces", err)
	}
	defer a.Body.Close()
	_, _ = io.CopyN(io.Discard, a.Body, maxAnswer)
	switch a.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		return false, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again = true
	}
	return again, fault.E(fault.Unavailable, fault.At("traces"), fault.Got(fmt.Sprintf("%s of %s", a.Status, e.to.URL)), fault.Want("200 OK of a collector that takes OTLP over HTTP"))
}

// drain returns when nothing waits for the collector any more, or ctx ends.
func (e *exporter) drain(ctx context.Context) {
	e.mu.Lock()
	idle := e.idle
	e.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}
