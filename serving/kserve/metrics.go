package kserve

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/edl-go/edl/serving"
)

// metrics are what Prometheus reads. Labels are the protocol, the model's name, and a status.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec   // by protocol and status of HTTP
	seconds  *prometheus.HistogramVec // by protocol
	rows     prometheus.Histogram     // of a run
	shared   prometheus.Histogram     // requests of a run
	running  prometheus.Histogram     // seconds of a run
	filled   prometheus.Counter       // rows that were computed to fill up a run
	reloads  *prometheus.CounterVec   // by result
}

func newMetrics(s *Server) *metrics {
	model := prometheus.Labels{"model": s.cfg.Name}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, ConstLabels: model, Buckets: buckets})
	}
	times := prometheus.ExponentialBuckets(20e-6, 2, 18) // 20 us to 2.6 s
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "edl_serving_requests_total", Help: "Requests for predictions, by the status of HTTP that stands for their result.", ConstLabels: model}, []string{"protocol", "code"}),
		seconds:  prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "edl_serving_request_seconds", Help: "Time from the head of a request to its response.", ConstLabels: model, Buckets: times}, []string{"protocol"}),
		rows:     histogram("edl_serving_batch_rows", "Rows, or sequences, of a run of the model.", prometheus.ExponentialBuckets(1, 2, 13)),
		shared:   histogram("edl_serving_batch_requests", "Requests that shared a run of the model.", prometheus.ExponentialBuckets(1, 2, 11)),
		running:  histogram("edl_serving_run_seconds", "Time of a run of the model.", times),
		filled:   prometheus.NewCounter(prometheus.CounterOpts{Name: "edl_serving_filled_rows_total", Help: "Rows that were computed only because a plan has more than a run.", ConstLabels: model}),
		reloads:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "edl_serving_reloads_total", Help: "Attempts to read files of the model that have changed.", ConstLabels: model}, []string{"result"}),
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: model}, value)
	}
	m.registry.MustRegister(m.requests, m.seconds, m.rows, m.shared, m.running, m.filled, m.reloads,
		gauge("edl_serving_queue_requests", "Requests that wait for a worker.", func() float64 { return float64(s.model.Waiting()) }),
		gauge("edl_serving_request_bytes", "Bytes of requests that are in memory.", func() float64 { return float64(s.bytes.Load()) }),
		gauge("edl_serving_loaded_timestamp_seconds", "When the files of the model were read.", func() float64 { at, _ := s.model.Loaded(); return float64(at.UnixMilli()) / 1000 }),
		gauge("edl_serving_follows_checkpoint", "1 if requests are answered with the parameters of a checkpoint of a job, 0 if with those of the files of the model.", func() float64 { return float64(min(1, len(s.model.Following()))) }),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, result := range []string{"ok", "failed"} {
		m.reloads.WithLabelValues(result)
	}
	return m
}

// ran counts a run of the model.
func (m *metrics) ran(b serving.Batch) {
	m.rows.Observe(float64(b.Rows))
	m.shared.Observe(float64(b.Requests))
	m.running.Observe(b.Took.Seconds())
	m.filled.Add(float64(b.Ran - b.Rows))
}

// reloaded counts an attempt to read changed files.
func (m *metrics) reloaded(err error) {
	if err != nil {
		m.reloads.WithLabelValues("failed").Inc()
		return
	}
	m.reloads.WithLabelValues("ok").Inc()
}

// answered counts a request.
func (m *metrics) answered(protocol string, err error, took time.Duration) {
	m.requests.WithLabelValues(protocol, strconv.Itoa(codeOf(err))).Inc()
	m.seconds.WithLabelValues(protocol).Observe(took.Seconds())
}
