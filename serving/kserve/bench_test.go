package kserve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/proto/inference"
	"github.com/edl-go/edl/serving"
	"github.com/edl-go/edl/serving/kserve"
	"github.com/edl-go/edl/tensor"
)

// benchmarked are models, each with the inputs of one row.
func benchmarked() map[string]func() (*layers.Model, layers.Variable, map[string]*tensor.Tensor) {
	numbers := func(n int64) *tensor.Tensor {
		x, _ := tensor.New(tensor.Float32, 1, n)
		r := rand.New(rand.NewPCG(1, 1))
		for i := range x.Float32s() {
			x.Float32s()[i] = r.Float32()
		}
		return x
	}
	return map[string]func() (*layers.Model, layers.Variable, map[string]*tensor.Tensor){
		"mlp": func() (*layers.Model, layers.Variable, map[string]*tensor.Tensor) { // 784-200-200-10
			m := layers.NewModel().Seed(1)
			h := layers.FC(layers.Data(m, "x", layers.Dims(784)), 200, layers.Act("relu"))
			return m, layers.FC(layers.FC(h, 200, layers.Act("relu")), 10, layers.Act("softmax")), map[string]*tensor.Tensor{"x": numbers(784)}
		},
		"clicks": func() (*layers.Model, layers.Variable, map[string]*tensor.Tensor) { // 26 categories and 13 numbers
			m := layers.NewModel().Seed(1)
			v := layers.Embedding(layers.Data(m, "ids", layers.Dims(26, 1), layers.DType(tensor.Int64)), 260000, 8)
			x := layers.Concat([]layers.Variable{layers.Reshape(v, []int64{-1, 26 * 8}), layers.Data(m, "dense", layers.Dims(13))}, 1)
			ids, _ := tensor.New(tensor.Int64, 1, 26, 1)
			for i := range ids.Int64s() {
				ids.Int64s()[i] = int64(i) * 9973
			}
			return m, layers.Sigmoid(layers.FC(layers.FC(x, 64, layers.Act("relu")), 1)), map[string]*tensor.Tensor{"ids": ids, "dense": numbers(13)}
		},
	}
}

// BenchmarkRequest measures what a request of one row takes, in turns with what it takes without a server: medians, in us. bare-us is an HTTP server of package net/http
// that reads the same request and sends as many bytes back.
func BenchmarkRequest(b *testing.B) {
	for name, make := range benchmarked() {
		b.Run(name, func(b *testing.B) {
			m, output, in := make()
			dir := exported(b, m, output)
			s := serveFrom(b, dir, kserve.Config{})
			model, err := serving.Open(dir, serving.WithWorkers(1))
			if err != nil {
				b.Fatal(err)
			}
			defer model.Close()
			body := jsonOf(b, in)
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			size := 0
			ask := func(url string) {
				response, err := client.Post(url, "application/json", bytes.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				answer, err := io.ReadAll(response.Body)
				if response.Body.Close(); err != nil || response.StatusCode != 200 {
					b.Fatalf("status %d: %s, %v", response.StatusCode, answer, err)
				}
				size = len(answer)
			}
			bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				_, _ = io.Copy(io.Discard, q.Body)
				_, _ = w.Write(bytes.Repeat([]byte{'1'}, size))
			}))
			defer bare.Close()
			call := callOf(in)
			ways := []struct {
				unit string
				do   func()
			}{
				{"direct-us", func() {
					if _, err := model.Predict(b.Context(), in); err != nil {
						b.Fatal(err)
					}
				}},
				{"http-us", func() { ask(s.http + "/v2/models/m/infer") }},
				{"bare-us", func() { ask(bare.URL) }},
				{"grpc-us", func() {
					if _, err := s.calls.ModelInfer(context.Background(), call); err != nil {
						b.Fatal(err)
					}
				}},
			}
			took := map[string][]time.Duration{}
			for b.Loop() {
				for _, way := range ways {
					for range 20 { // of which the first finds nothing in the caches
						began := time.Now()
						way.do()
						took[way.unit] = append(took[way.unit], time.Since(began))
					}
				}
			}
			b.ReportMetric(0, "ns/op")
			for unit, all := range took {
				slices.Sort(all)
				b.ReportMetric(float64(all[len(all)/2])/1e3, unit)
			}
		})
	}
}

// jsonOf is a request of HTTP.
func jsonOf(b *testing.B, in map[string]*tensor.Tensor) []byte {
	var list []string
	for name, t := range in {
		kind, data := "FP32", any(nil)
		if t.DType() == tensor.Int64 {
			kind, data = "INT64", t.Int64s()
		} else {
			data = t.Float32s()
		}
		text, err := json.Marshal(data)
		if err != nil {
			b.Fatal(err)
		}
		shape, _ := json.Marshal(t.Dims())
		list = append(list, fmt.Sprintf(`{"name":%q,"shape":%s,"datatype":%q,"data":%s}`, name, shape, kind, text))
	}
	return []byte(inputs(list...))
}

// callOf is a request of gRPC.
func callOf(in map[string]*tensor.Tensor) *inference.ModelInferRequest {
	call := &inference.ModelInferRequest{ModelName: "m"}
	for name, t := range in {
		one := &inference.ModelInferRequest_InferInputTensor{Name: name, Shape: t.Dims(), Datatype: "FP32", Contents: &inference.InferTensorContents{}}
		if t.DType() == tensor.Int64 {
			one.Datatype, one.Contents.Int64Contents = "INT64", t.Int64s()
		} else {
			one.Contents.Fp32Contents = t.Float32s()
		}
		call.Inputs = append(call.Inputs, one)
	}
	return call
}
