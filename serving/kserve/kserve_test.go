package kserve_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/export"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/proto/inference"
	"github.com/edl-go/edl/serving"
	"github.com/edl-go/edl/serving/kserve"
	"github.com/edl-go/edl/tensor"
)

// written exports a model without parameters: it adds 1 to x, negates n, and doubles and sums sequences.
func written(t testing.TB) string {
	t.Helper()
	m := layers.NewModel()
	x := layers.Scale(layers.Data(m, "x", layers.Dims(2)), 1, 1, layers.Name("more"))
	n := layers.Scale(layers.Data(m, "n", layers.Dims(1), layers.DType(tensor.Int64)), -1, 0, layers.Name("less"))
	words := layers.Scale(layers.Data(m, "words", layers.Dims(1), layers.LoD(1)), 2, 0, layers.Name("twice"))
	sum := layers.SequencePool(words, "sum", layers.Name("sum"))
	return exported(t, m, x, n, words, sum)
}

// exported exports a model with its initial parameters that computes variables.
func exported(t testing.TB, m *layers.Model, fetch ...layers.Variable) string {
	t.Helper()
	whole, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	p, err := export.Program(whole, nil, layers.Names(fetch...))
	if err != nil {
		t.Fatal(err)
	}
	initial := executor.New()
	defer initial.Close()
	if err := initial.Startup(t.Context(), whole); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := export.Write(dir, p, export.Fluid, func(name string) (*tensor.Tensor, error) {
		value, _ := initial.Scope().Find(name)
		return value, nil
	}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A served is a model that is served on loopback ports until the test ends.
type served struct {
	http  string
	calls inference.GRPCInferenceServiceClient
	end   func() error // ends the server, and returns the error of Serve
}

func serve(t testing.TB, cfg kserve.Config, options ...serving.Option) served {
	t.Helper()
	return serveFrom(t, written(t), cfg, options...)
}

func serveFrom(t testing.TB, dir string, cfg kserve.Config, options ...serving.Option) served {
	t.Helper()
	cfg.Name = "m"
	s, err := kserve.New(cfg, func(own ...serving.Option) (*serving.Model, error) {
		return serving.Open(dir, append(append(own, serving.WithWorkers(1)), options...)...)
	})
	if err != nil {
		t.Fatal(err)
	}
	var ports [2]net.Listener
	for i := range ports {
		if ports[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ports[0], ports[1], nil) }()
	client, err := grpc.NewClient(ports[1].Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	end := sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		client.Close()
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	return served{"http://" + ports[0].Addr().String(), inference.NewGRPCInferenceServiceClient(client), end}
}

// ask sends a request, GET without a body, and returns the status and the answer.
func (s served) ask(t testing.TB, path, body string) (int, string) {
	t.Helper()
	var response *http.Response
	var err error
	if body == "" {
		response, err = http.Get(s.http + path)
	} else {
		response, err = http.Post(s.http+path, "application/json", strings.NewReader(body))
	}
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return response.StatusCode, strings.TrimSpace(string(b))
}

const (
	inputX = `{"name":"x","shape":[2,2],"datatype":"FP32","data":[1,2,3,4.5]}`
	inputN = `{"name":"n","shape":[2,1],"datatype":"INT64","data":[[9007199254740993],[-1]]}`
	inputW = `{"name":"words","datatype":"FP32","data":[[1,2,3],[4]]}`
)

func inputs(list ...string) string { return `{"inputs":[` + strings.Join(list, ",") + `]}` }

func TestRequestsOverHTTP(t *testing.T) {
	s := serve(t, kserve.Config{Version: "v1", MaxRequest: 2000})
	for _, c := range []struct {
		path, body string
		code       int
		want       string
	}{
		{"/v2", "", 200, `{"extensions":[],"name":"edl","version":"v1"}`},
		{"/v2/health/live", "", 200, `{"live":true}`},
		{"/v2/health/ready", "", 200, `{"ready":true}`},
		{"/v2/models/m/ready", "", 200, `{"ready":true}`},
		{"/v2/models/m/versions/1/ready", "", 200, `{"ready":true}`},
		{"/v2/models/m/versions/2/ready", "", 404, `version \"2\"`},
		{"/v2/models/other", "", 404, `model \"other\"`},
		{"/v2/models/m", "", 200, `{"name":"x","datatype":"FP32","shape":[-1,2]}`},
		{"/v2/models/m", "", 200, `{"name":"words","datatype":"FP32","shape":[-1,1],"parameters":{"lod_levels":1}}`},
		{"/v2/models/m/infer", `{"id":"q",` + inputs(inputX, inputN, inputW)[1:], 200, `{"model_name":"m","model_version":"1","id":"q","outputs":[` +
			`{"name":"more","datatype":"FP32","shape":[2,2],"data":[2,3,4,5.5]},` +
			`{"name":"less","datatype":"INT64","shape":[2,1],"data":[-9007199254740993,1]},` +
			`{"name":"twice","datatype":"FP32","shape":[4,1],"parameters":{"lod":"0,3,4"},"data":[2,4,6,8]},` +
			`{"name":"sum","datatype":"FP32","shape":[2,1],"data":[12,8]}]}`},
		{"/v2/models/m/infer",
			`{"outputs":[{"name":"sum","parameters":{"a":[{}]}}],"parameters":{"b":null},` +
				inputs(inputX, inputN, `{"data":[1,2,3,"Infinity"],"parameters":{"lod":"0,3,4"},"shape":[4,1],"datatype":"FP32","name":"words"}`)[1:], 200,
			`"outputs":[{"name":"sum","datatype":"FP32","shape":[2,1],"data":[12,"Infinity"]}]}`},
		{"/v2/models/m/infer", inputs(inputX, inputN), 400, `\"words\": invalid argument: got no value`},
		{"/v2/models/m/infer", inputs(inputX, inputX), 400, `\"x\": invalid argument: got two values`},
		{"/v2/models/m/infer", inputs(`{"name":"y","datatype":"FP32","data":[]}`), 400, `an input that the model does not have`},
		{"/v2/models/m/infer", `{"outputs":[{"name":"mor"}]}`, 400, `did you mean \"more\"`},
		{"/v2/models/m/infer", inputs(`{"name":"x","datatype":"FP64","data":[1,2]}`), 400, `got datatype \"FP64\", want FP32`},
		{"/v2/models/m/infer", inputs(`{"name":"x","datatype":"FP32","data":[1,2,3]}`), 400, `got 3 numbers, want rows of 2`},
		{"/v2/models/m/infer", inputs(`{"name":"x","datatype":"FP32","shape":[1099511627776,1099511627776],"data":[1]}`), 400, `got 1 elements`},
		{"/v2/models/m/infer", inputs(`{"name":"x","datatype":"FP32","shape":[2],"data":[1,2]}`, inputN, inputW), 400, `\"x\": shape mismatch`},
		{"/v2/models/m/infer", inputs(`{"name":"x","datatype":"FP32","data":[1,1e99]}`), 400, `want a number that fits in 32 bits`},
		{"/v2/models/m/infer", inputs(`{"name":"n","datatype":"INT64","data":[1.5]}`), 400, `want a whole number of 64 bits`},
		{"/v2/models/m/infer", inputs(`{"name":"words","datatype":"FP32","data":[1,2]}`), 400, `want [`},
		{"/v2/models/m/infer", inputs(`{"name":"words","datatype":"FP32","data":[[[1,2]]]}`), 400, `got a row of 2 numbers, want 1`},
		{"/v2/models/m/infer", inputs(`{"name":"words","datatype":"FP32","shape":[2,1],"parameters":{"lod":"0,3"},"data":[1,2]}`, inputX, inputN), 400, `level 0 that ends at 3, want 2`},
		{"/v2/models/m/infer", `{"inputs":[`, 400, `got the end`},
		{"/v2/models/m/infer", `{"inputs":[]}}`, 400, `want the end`},
		{"/v2/models/m/infer", `{"x":` + strings.Repeat("[", 500), 400, `fewer arrays`},
		{"/v2/models/m/infer", `{"x":` + strings.Repeat(`{"a":`, 300), 400, `fewer arrays and objects`},
		{"/v2/models/m/infer", strings.Repeat(" ", 2001), 413, `at most 2000`},
		{"/metrics", "", 200, `edl_serving_requests_total{code="200",model="m",protocol="http"} 2`},
	} {
		if code, got := s.ask(t, c.path, c.body); code != c.code || !strings.Contains(got, c.want) {
			t.Errorf("%s %.120s: %d %s\nwant %d %s", c.path, c.body, code, got, c.code, c.want)
		}
	}
}

func TestRequestsOverGRPC(t *testing.T) {
	s := serve(t, kserve.Config{})
	ctx := t.Context()
	if r, err := s.calls.ServerReady(ctx, &inference.ServerReadyRequest{}); err != nil || !r.Ready {
		t.Fatal(r, err)
	}
	if r, err := s.calls.ModelMetadata(ctx, &inference.ModelMetadataRequest{Name: "m"}); err != nil || len(r.Inputs) != 3 || len(r.Outputs) != 4 || r.Inputs[0].Shape[0] != -1 {
		t.Fatal(r, err)
	}
	if _, err := s.calls.ModelReady(ctx, &inference.ModelReadyRequest{Name: "other"}); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
	lod := map[string]*inference.InferParameter{"lod": {ParameterChoice: &inference.InferParameter_StringParam{StringParam: "0,1,3"}}}
	request := func() *inference.ModelInferRequest {
		return &inference.ModelInferRequest{ModelName: "m", Id: "q", Inputs: []*inference.ModelInferRequest_InferInputTensor{
			{Name: "x", Datatype: "FP32", Shape: []int64{2, 2}, Contents: &inference.InferTensorContents{Fp32Contents: []float32{1, 2, 3, 4}}},
			{Name: "n", Datatype: "INT64", Shape: []int64{2, 1}, Contents: &inference.InferTensorContents{Int64Contents: []int64{5, -6}}},
			{Name: "words", Datatype: "FP32", Shape: []int64{3, 1}, Parameters: lod, Contents: &inference.InferTensorContents{Fp32Contents: []float32{1, 2, 3}}},
		}}
	}
	r, err := s.calls.ModelInfer(ctx, request())
	if err != nil {
		t.Fatal(err)
	}
	if r.Id != "q" || r.Outputs[1].Contents.Int64Contents[1] != 6 || r.Outputs[2].Parameters["lod"].GetStringParam() != "0,1,3" || r.Outputs[3].Contents.Fp32Contents[1] != 10 {
		t.Error(r)
	}
	raw := request()
	for _, in := range raw.Inputs {
		in.Contents = nil
	}
	raw.RawInputContents = [][]byte{make([]byte, 16), {1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0}, make([]byte, 12)}
	if r, err = s.calls.ModelInfer(ctx, raw); err != nil || string(r.RawOutputContents[1]) != "\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff\xff\xff\xff\xff" {
		t.Error(r, err)
	}
	for want, spoil := range map[string]func(q *inference.ModelInferRequest){
		"1 raw contents":     func(q *inference.ModelInferRequest) { q.RawInputContents = q.RawInputContents[:1] },
		"4 bytes of float32": func(q *inference.ModelInferRequest) { q.RawInputContents[0] = make([]byte, 4) },
		"those of shape":     func(q *inference.ModelInferRequest) { q.Inputs[0].Shape = []int64{1 << 40, 1 << 40} },
		"-1":                 func(q *inference.ModelInferRequest) { q.Inputs[0].Shape = []int64{-1, 2} },
		"datatype":           func(q *inference.ModelInferRequest) { q.Inputs[0].Datatype = "" },
		"no value": func(q *inference.ModelInferRequest) {
			q.Inputs, q.RawInputContents = q.Inputs[1:], q.RawInputContents[1:]
		},
		"offsets such as": func(q *inference.ModelInferRequest) {
			q.Inputs[2].Parameters["lod"].ParameterChoice = &inference.InferParameter_StringParam{StringParam: "a"}
		},
	} {
		q := request()
		q.RawInputContents = [][]byte{make([]byte, 16), make([]byte, 16), make([]byte, 12)}
		q.Inputs[2].Parameters = map[string]*inference.InferParameter{"lod": {ParameterChoice: &inference.InferParameter_StringParam{StringParam: "0,1,3"}}}
		spoil(q)
		if _, err := s.calls.ModelInfer(ctx, q); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Beyond the bound of those that wait, clients are told to come again. A client that gives up makes place, and the server ends.
func TestTooManyRequestsAndTheEnd(t *testing.T) {
	ran := make(chan struct{}, 8)
	s := serve(t, kserve.Config{DrainTime: time.Minute}, serving.WithMaxBatch(4), serving.WithMaxWait(time.Hour), serving.WithMaxQueue(1),
		serving.WithObserver(func(serving.Batch) { ran <- struct{}{} }))
	one := inputs(`{"name":"x","datatype":"FP32","data":[1,2]}`, `{"name":"n","datatype":"INT64","data":[1]}`, `{"name":"words","datatype":"FP32","data":[[1]]}`)
	first := make(chan int)
	ctx, giveUp := context.WithCancel(t.Context())
	go func() {
		q, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.http+"/v2/models/m/infer", strings.NewReader(one))
		if _, err := http.DefaultClient.Do(q); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		close(first)
	}()
	for waits := false; !waits; {
		_, text := s.ask(t, "/metrics", "")
		waits = strings.Contains(text, `edl_serving_queue_requests{model="m"} 1`)
	}
	if code, text := s.ask(t, "/v2/models/m/infer", one); code != http.StatusTooManyRequests || !strings.Contains(text, "too many requests wait") {
		t.Error(code, text)
	}
	giveUp()
	<-first
	if err := s.end(); err != nil {
		t.Error(err)
	}
	if len(ran) != 0 {
		t.Error("a request ran that its client gave up")
	}
}

// A key means the same row as a number and as a text, in both protocols. The text of -1, which is no key, is refused.
func TestAKeyIsTheSameAsNumberAndText(t *testing.T) {
	m := layers.NewModel()
	user := layers.Data(m, "user", layers.Dims(1), layers.DType(tensor.Int64))
	s := serveFrom(t, exported(t, m, layers.SparseEmbedding(user, 640, 2, layers.Name("vector")), layers.Scale(user, 1, 0, layers.Name("key"))), kserve.Config{})
	for _, input := range []string{`"datatype":"INT64","data":[7]`, `"datatype":"BYTES","data":["7"]`} {
		code, answer := s.ask(t, "/v2/models/m/infer", `{"inputs":[{"name":"user","shape":[1,1],`+input+`}],"outputs":[{"name":"key"}]}`)
		if code != 200 || !strings.Contains(answer, `"data":[7]`) {
			t.Errorf("%s: %d %s", input, code, answer)
		}
	}
	if code, answer := s.ask(t, "/v2/models/m/infer", `{"inputs":[{"name":"user","shape":[1,1],"datatype":"BYTES","data":["-1"]}]}`); code != 400 || !strings.Contains(answer, "no key") {
		t.Errorf("the text -1: %d %s", code, answer)
	}
	ask := func(text string) (*inference.ModelInferResponse, error) {
		return s.calls.ModelInfer(t.Context(), &inference.ModelInferRequest{ModelName: "m", Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: "user", Datatype: "BYTES",
			Shape: []int64{1, 1}, Contents: &inference.InferTensorContents{BytesContents: [][]byte{[]byte(text)}}}},
			Outputs: []*inference.ModelInferRequest_InferRequestedOutputTensor{{Name: "key"}}})
	}
	if r, err := ask("7"); err != nil || r.Outputs[0].Contents.GetInt64Contents()[0] != 7 {
		t.Errorf("the text 7 over gRPC: %v %v", r, err)
	}
	if _, err := ask("-1"); err == nil || !strings.Contains(err.Error(), "no key") {
		t.Errorf("the text -1 over gRPC: %v", err)
	}
}
