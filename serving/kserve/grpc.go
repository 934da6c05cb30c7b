package kserve

import (
	"bytes"
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/inference"
	"github.com/edl-go/edl/serving"
	"github.com/edl-go/edl/tensor"
)

// A service answers calls of the protocol.
type service struct {
	inference.UnimplementedGRPCInferenceServiceServer
	server *Server
}

// mostCalls bounds the calls that have begun, so that their messages have a bound in memory.
const mostCalls = 4 * requestsInMemory

// admit refuses a call before its message is read, when too many have begun.
func (s *Server) admit(ctx context.Context, _ *tap.Info) (context.Context, error) {
	if s.calls.Load() >= mostCalls {
		return ctx, toStatus(errFull())
	}
	return ctx, nil
}

// A counter counts the calls that have begun.
type counter struct{ *Server }

// TagRPC implements stats.Handler.
func (c counter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (c counter) HandleRPC(_ context.Context, e stats.RPCStats) {
	switch e.(type) {
	case *stats.Begin:
		c.calls.Add(1)
	case *stats.End:
		c.calls.Add(-1)
	}
}

// TagConn implements stats.Handler.
func (c counter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (c counter) HandleConn(context.Context, stats.ConnStats) {}

// toStatus is the error of a call.
func toStatus(err error) error {
	code := codes.Code(fault.KindOf(err).GRPCCode())
	if errors.Is(err, serving.ErrBusy) {
		code = codes.ResourceExhausted
	}
	return status.Error(code, err.Error())
}

func (s *service) ServerLive(context.Context, *inference.ServerLiveRequest) (*inference.ServerLiveResponse, error) {
	return &inference.ServerLiveResponse{Live: true}, nil
}

func (s *service) ServerReady(context.Context, *inference.ServerReadyRequest) (*inference.ServerReadyResponse, error) {
	return &inference.ServerReadyResponse{Ready: s.server.ready.Load()}, nil
}

func (s *service) ModelReady(_ context.Context, q *inference.ModelReadyRequest) (*inference.ModelReadyResponse, error) {
	if err := s.server.checkModel(q.Name, q.Version); err != nil {
		return nil, toStatus(err)
	}
	return &inference.ModelReadyResponse{Ready: s.server.ready.Load()}, nil
}

func (s *service) ServerMetadata(context.Context, *inference.ServerMetadataRequest) (*inference.ServerMetadataResponse, error) {
	return &inference.ServerMetadataResponse{Name: serverName, Version: s.server.cfg.Version}, nil
}

func (s *service) ModelMetadata(_ context.Context, q *inference.ModelMetadataRequest) (*inference.ModelMetadataResponse, error) {
	if err := s.server.checkModel(q.Name, q.Version); err != nil {
		return nil, toStatus(err)
	}
	fields := func(of []serving.Field) (all []*inference.ModelMetadataResponse_TensorMetadata) {
		for _, d := range describe(of) {
			all = append(all, &inference.ModelMetadataResponse_TensorMetadata{Name: d.Name, Datatype: d.Datatype, Shape: d.Shape})
		}
		return all
	}
	schema := s.server.model.Schema()
	return &inference.ModelMetadataResponse{Name: s.server.cfg.Name, Versions: []string{s.server.version()}, Platform: platform,
		Inputs: fields(schema.Inputs), Outputs: fields(schema.Outputs)}, nil
}

func (s *service) ModelInfer(ctx context.Context, q *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
	began := time.Now()
	response, err := s.infer(ctx, q)
	s.server.metrics.answered("grpc", err, time.Since(began))
	if err != nil {
		return nil, toStatus(err)
	}
	return response, nil
}

func (s *service) infer(ctx context.Context, q *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
	if err := s.server.checkModel(q.ModelName, q.ModelVersion); err != nil {
		return nil, err
	}
	raw := len(q.RawInputContents) > 0
	if raw && len(q.RawInputContents) != len(q.Inputs) {
		return nil, fault.E(fault.InvalidArgument, fault.Gotf("%d raw contents", len(q.RawInputContents)), fault.Wantf("one for each of %d inputs", len(q.Inputs)))
	}
	schema := s.server.model.Schema()
	r := &request{id: q.Id, inputs: map[string]*tensor.Tensor{}}
	for i, in := range q.Inputs {
		err := r.add(in.Name, &schema, func(f *serving.Field) (*tensor.Tensor, error) {
			if err := checkType(f, in.Datatype); err != nil {
				return nil, err
			}
			offsets := in.Parameters[lodParameter].GetStringParam()
			if raw {
				return fromBytes(f, in, q.RawInputContents[i], offsets)
			}
			return fromContents(f, in, offsets)
		})
		if err != nil {
			return nil, err
		}
	}
	for _, o := range q.Outputs {
		r.outputs = append(r.outputs, o.Name)
	}
	if err := r.checkOutputs(&schema); err != nil {
		return nil, err
	}
	outputs, err := s.server.model.Predict(ctx, r.inputs)
	if err != nil {
		return nil, err
	}
	response := &inference.ModelInferResponse{ModelName: s.server.cfg.Name, ModelVersion: s.server.version(), Id: r.id}
	r.wanted(&schema, func(f *serving.Field) {
		t := outputs[f.Name]
		out := &inference.ModelInferResponse_InferOutputTensor{Name: f.Name, Datatype: datatypes[t.DType()], Shape: t.Dims()}
		if lod := t.LoD(); len(lod) > 0 {
			offsets := &inference.InferParameter{ParameterChoice: &inference.InferParameter_StringParam{StringParam: tensor.FormatLoD(lod)}}
			out.Parameters = map[string]*inference.InferParameter{lodParameter: offsets}
		}
		response.Outputs = append(response.Outputs, out)
		if !raw && t.DType() != tensor.BFloat16 {
			out.Contents = contentsOf(t)
			return
		}
		var b bytes.Buffer
		err = errors.Join(err, tensor.WriteElements(&b, t))
		response.RawOutputContents = append(response.RawOutputContents, b.Bytes())
	})
	return response, err
}

// fromBytes makes a tensor of raw elements.
func fromBytes(f *serving.Field, in *inference.ModelInferRequest_InferInputTensor, b []byte, offsets string) (*tensor.Tensor, error) {
	if in.Datatype != datatypes[f.DType] {
		return nil, fault.E(fault.Unsupported, fault.Var(f.Name), fault.Got("texts as raw contents"), fault.Want("texts in bytes_contents"))
	}
	n, ok := tensor.Count(in.Shape)
	if !ok || len(in.Shape) > tensor.MaxRank || n > len(b) || n*f.DType.Size() != len(b) {
		return nil, fault.E(fault.ShapeMismatch, fault.Var(f.Name), fault.Gotf("%d bytes of %s", len(b), f.DType), fault.Wantf("those of shape %v", in.Shape[:min(len(in.Shape), tensor.MaxRank)]))
	}
	t, err := tensor.ReadElements(bytes.NewReader(b), f.DType, in.Shape...)
	if err == nil && offsets != "" {
		var lod [][]int64
		if lod, err = tensor.ParseLoD(offsets); err == nil {
			t.SetLoD(lod)
		}
	}
	if err != nil {
		return nil, of(f, err)
	}
	return t, nil
}

// fromContents makes a tensor of typed elements.
func fromContents(f *serving.Field, in *inference.ModelInferRequest_InferInputTensor, offsets string) (*tensor.Tensor, error) {
	c := in.Contents
	if c == nil {
		c = &inference.InferTensorContents{}
	}
	shape := in.Shape
	if shape == nil {
		shape = []int64{}
	}
	switch {
	case in.Datatype == texts:
		keys := make([]int64, len(c.BytesContents))
		for i, b := range c.BytesContents {
			key, err := keyOf(string(b))
			if err != nil {
				return nil, of(f, err)
			}
			keys[i] = key
		}
		return made(f, keys, shape, nil, offsets)
	case f.DType == tensor.Bool:
		return made(f, c.BoolContents, shape, nil, offsets)
	case f.DType == tensor.Int32:
		return made(f, c.IntContents, shape, nil, offsets)
	case f.DType == tensor.Int64:
		return made(f, c.Int64Contents, shape, nil, offsets)
	case f.DType == tensor.Float32:
		return made(f, c.Fp32Contents, shape, nil, offsets)
	case f.DType == tensor.Float64:
		return made(f, c.Fp64Contents, shape, nil, offsets)
	}
	return nil, fault.E(fault.Unsupported, fault.Var(f.Name), fault.Got("contents for "+f.String()), fault.Want("raw_input_contents"))
}

func contentsOf(t *tensor.Tensor) *inference.InferTensorContents {
	switch t.DType() {
	case tensor.Bool:
		return &inference.InferTensorContents{BoolContents: t.Bools()}
	case tensor.Int32:
		return &inference.InferTensorContents{IntContents: t.Int32s()}
	case tensor.Int64:
		return &inference.InferTensorContents{Int64Contents: t.Int64s()}
	case tensor.Float32:
		return &inference.InferTensorContents{Fp32Contents: t.Float32s()}
	}
	return &inference.InferTensorContents{Fp64Contents: t.Float64s()}
}
