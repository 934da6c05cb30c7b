package kserve

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/serving"
)

// handler answers all paths of the protocol, and /metrics.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2", s.describeServer)
	mux.HandleFunc("GET /v2/health/live", func(w http.ResponseWriter, _ *http.Request) { answer(w, map[string]bool{"live": true}) })
	mux.HandleFunc("GET /v2/health/ready", s.tellReady)
	for _, path := range []string{"/v2/models/{model}", "/v2/models/{model}/versions/{version}"} {
		mux.HandleFunc("GET "+path, s.ofModel(s.describeModel))
		mux.HandleFunc("GET "+path+"/ready", s.ofModel(s.tellReady))
		mux.HandleFunc("POST "+path+"/infer", s.ofModel(s.infer))
		mux.HandleFunc("POST "+path+"/rows", s.ofModel(s.serveRows))
	}
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: requestTime}))
	return mux
}

// ofModel answers only requests that name the model.
func (s *Server) ofModel(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		if err := s.checkModel(q.PathValue("model"), q.PathValue("version")); err != nil {
			refuse(w, err)
			return
		}
		serve(w, q)
	}
}

func (s *Server) tellReady(w http.ResponseWriter, _ *http.Request) {
	if !s.ready.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	answer(w, map[string]bool{"ready": true})
}

func (s *Server) describeServer(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]any{"name": serverName, "version": s.cfg.Version, "extensions": []string{}})
}

// A described is an input or output in the metadata of a model.
type described struct {
	Name     string  `json:"name"`
	Datatype string  `json:"datatype"`
	Shape    []int64 `json:"shape"`
	// Parameters has lod_levels where rows form sequences: data is then a list of sequences, and shape that of their rows. Else it is absent.
	Parameters map[string]int `json:"parameters,omitempty"`
}

func describe(fields []serving.Field) []described {
	all := []described{}
	for _, f := range fields {
		d := described{f.Name, datatypes[f.DType], append([]int64{}, f.Dims...), nil}
		if f.LoDLevel > 0 {
			d.Parameters = map[string]int{"lod_levels": f.LoDLevel}
		}
		for i, n := range d.Shape {
			if n == program.Unknown {
				d.Shape[i] = -1
			}
		}
		all = append(all, d)
	}
	return all
}

func (s *Server) describeModel(w http.ResponseWriter, _ *http.Request) {
	schema := s.model.Schema()
	answer(w, map[string]any{"name": s.cfg.Name, "versions": []string{s.version()}, "platform": platform, "inputs": describe(schema.Inputs), "outputs": describe(schema.Outputs)})
}

// bodies are buffers for requests and responses. Large ones are not kept.
var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

const keptBody = 1 << 20 // bytes

func giveBack(b *bytes.Buffer) {
	if b.Cap() <= keptBody {
		b.Reset()
		bodies.Put(b)
	}
}

// infer answers a request for predictions.
func (s *Server) infer(w http.ResponseWriter, q *http.Request) {
	began := time.Now()
	err := s.withBody(q, 1, func(body []byte) error {
		schema := s.model.Schema()
		r, err := readRequest(body, &schema)
		if err != nil {
			return err
		}
		return s.predict(w, q, r, &schema)
	})
	if err != nil {
		refuse(w, err)
	}
	s.metrics.answered("http", err, time.Since(began))
}

// withBody calls f with the body of a request, while the memory for it is counted: so many times the bytes that have arrived.
func (s *Server) withBody(q *http.Request, times int64, f func(body []byte) error) error {
	size := q.ContentLength
	if size > s.cfg.MaxRequest {
		return tooLarge(size, s.cfg.MaxRequest)
	}
	if size < 0 {
		size = s.cfg.MaxRequest // it does not say
	}
	counted := &countedBody{r: io.LimitReader(q.Body, size+1), server: s, times: times}
	defer func() { s.drop(counted.held) }()
	body := bodies.Get().(*bytes.Buffer)
	defer giveBack(body)
	if _, err := body.ReadFrom(counted); err != nil {
		if errors.Is(err, serving.ErrBusy) {
			return err
		}
		return fault.E(fault.Unavailable, fault.At("the body of the request"), fault.Cause(err))
	}
	if int64(body.Len()) > size {
		return tooLarge(int64(body.Len()), size)
	}
	return f(body.Bytes())
}

// A countedBody counts the bytes of a body as they come: a client that says that it sends much, and sends nothing, holds nothing.
type countedBody struct {
	r           io.Reader
	server      *Server
	times, held int64
}

// Read implements io.Reader.
func (c *countedBody) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	if n > 0 {
		if !c.server.hold(int64(n) * c.times) {
			return 0, errFull()
		}
		c.held += int64(n) * c.times
	}
	return n, err
}

// elementBytes is about what an element takes in a response as JSON.
const elementBytes = 12

// predict answers with what the model predicts.
func (s *Server) predict(w http.ResponseWriter, q *http.Request, r *request, schema *serving.Schema) error {
	outputs, err := s.model.Predict(q.Context(), r.inputs)
	if err != nil {
		return err
	}
	size := int64(0)
	r.wanted(schema, func(f *serving.Field) { size += elementBytes * int64(outputs[f.Name].Len()) })
	if most := requestsInMemory * s.cfg.MaxRequest; size > most {
		return fault.E(fault.TooLarge, fault.Gotf("a response of about %d bytes", size), fault.Wantf("at most %d", most), fault.Hint("ask for fewer rows or outputs"))
	}
	if !s.hold(size) {
		return errFull()
	}
	defer s.drop(size)
	response := bodies.Get().(*bytes.Buffer)
	defer giveBack(response)
	response.Write(appendResponse(response.AvailableBuffer(), s.cfg.Name, s.version(), r, schema, outputs))
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(response.Bytes()) // an error is one of the connection
	return nil
}

func tooLarge(got, most int64) error {
	return fault.E(fault.TooLarge, fault.Gotf("a request of %d bytes or more", got), fault.Wantf("at most %d", most))
}

// answer writes a value as JSON.
func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// codeOf is the status of HTTP for an error.
func codeOf(err error) int {
	switch kind := fault.KindOf(err); {
	case err == nil:
		return http.StatusOK
	case errors.Is(err, serving.ErrBusy):
		return http.StatusTooManyRequests
	case kind == fault.NotFound:
		return http.StatusNotFound
	case kind == fault.TooLarge:
		return http.StatusRequestEntityTooLarge
	case kind == fault.Unavailable || kind == fault.Canceled || kind == fault.DeadlineExceeded:
		return http.StatusServiceUnavailable
	case kind == fault.Internal:
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

// refuse answers with an error, as the protocol has it.
func refuse(w http.ResponseWriter, err error) {
	code := codeOf(err)
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": strings.Join(strings.Fields(err.Error()), " ")})
}
