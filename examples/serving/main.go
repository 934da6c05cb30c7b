// Serving is a service of one's own: it answers with the prices that a model of examples/fit_a_line predicts, and takes another model when its directory is replaced.
//
//	go run ./examples/serving served 127.0.0.1:8000
//	curl -d '[[0.1, 0.2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]]' 127.0.0.1:8000
package main

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/edl-go/edl/serving"
	"github.com/edl-go/edl/tensor"
)

func main() {
	m, err := serving.Open(os.Args[1], serving.WithReload(time.Second))
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(os.Args[2], service(m)))
}

// service answers a list of houses, 13 numbers each, with a list of prices.
func service(m *serving.Model) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		prices, err := predict(r.Context(), m, http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(prices) // an error is one of the connection
	}
}

func predict(ctx context.Context, m *serving.Model, body io.Reader) ([]float32, error) {
	var houses [][]float32
	if err := json.NewDecoder(body).Decode(&houses); err != nil {
		return nil, err
	}
	x, err := tensor.FromSlice(slices.Concat(houses...), int64(len(houses)), 13)
	if err != nil {
		return nil, err
	}
	outputs, err := m.Predict(ctx, map[string]*tensor.Tensor{"x": x})
	if err != nil {
		return nil, err
	}
	return outputs[m.Schema().Outputs[0].Name].Float32s(), nil
}
