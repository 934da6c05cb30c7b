package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor/export"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/serving"
	"github.com/edl-go/edl/tensor"
)

func TestTheServicePredictsPrices(t *testing.T) {
	m := layers.NewModel().Seed(1)
	sum := layers.ReduceSum(layers.Data(m, "x", layers.Dims(13)), layers.Axes(1))
	whole, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	p, err := export.Program(whole, nil, layers.Names(sum))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := export.Write(dir, p, export.Fluid, func(string) (*tensor.Tensor, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	model, err := serving.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	for question, want := range map[string]struct {
		code   int
		answer string
	}{
		"[[1,0,0,0,0,0,0,0,0,0,0,0,2],[0,0,0,0,0,0,0,0,0,0,0,0,5]]": {http.StatusOK, "[3,5]"},
		"[[1,2]]": {http.StatusBadRequest, "13"},
		"nothing": {http.StatusBadRequest, "invalid"},
	} {
		answer := httptest.NewRecorder()
		service(model)(answer, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(question)))
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.Code != want.code || !strings.Contains(string(body), want.answer) {
			t.Errorf("%s: %d %s %v, want %d %s", question, answer.Code, body, err, want.code, want.answer)
		}
	}
}
