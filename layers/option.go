package layers

import (
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// An Option changes a default of a layer. It is a mistake to give a layer an option that it does not list.
type Option struct {
	name string
	set  func(*settings)
}

// settings holds what options set.
type settings struct {
	name   string
	param  ParamAttr
	bias   ParamAttr
	noBias bool
	act    string
	isTest bool

	dims    []int64 // Data and Field
	dtype   tensor.DType
	noBatch bool
	lod     int

	flatten     int // FC
	padID       int64
	sparse      bool
	atBound     string // SparseEmbedding
	entry       string
	unseen      int64
	unseenDays  int64
	distributed bool
	halves      bool // tables of bfloat16
	combine     string
	epsilon     float64
	momentum    float64 // of moving statistics
	beginNorm   int
	upscale     bool

	stride, padding, dilation []int64 // Conv2D and Pool2D
	window                    []int64 // nil for a square one
	groups                    int
	avg, global               bool
	ceilMode, inclusive       bool
	imageSettings

	softLabel bool // losses and metrics
	ignore    int64
	k         int

	axis                   int // arithmetic
	axes                   []int
	keepDims               bool
	transposeX, transposeY bool
	alpha                  float64

	padMode  string // paddings
	padValue float64

	hidden, cell                   *Variable // DynamicLSTM and DynamicGRU
	noPeepholes, reverse, origin   bool
	gateAct, cellAct, candidateAct string
	forgetBias                     float64 // LSTMUnit
	cellClip, projectionClip       float64 // DynamicLSTMP
	linearProjection               bool

	inside, outside *Variable // SmoothL1

	pathTable, pathCode *Variable // HSigmoid
	samples             int       // NCE
	logUniform          bool
	weights             *Variable
	keepHits            bool // SampledSoftmaxWithCrossEntropy
	byTimes             bool // WarpCTC

	paddingStart                      *int // SequenceConv; nil for half a window
	refLevel, paddedLength, maxLength int  // SequenceExpand, SequencePad, SequenceMask; -1 for what the batch says
}

func defaults() settings {
	return settings{
		dtype: tensor.Float32, flatten: 1, padID: -1, epsilon: 1e-5, momentum: 0.9, beginNorm: 1,
		stride: []int64{1, 1}, padding: []int64{0, 0}, dilation: []int64{1, 1}, groups: 1,
		ignore: -100, k: 1, axis: -1, alpha: 1, padMode: "constant", samples: 10,
		gateAct: "sigmoid", cellAct: "tanh", candidateAct: "tanh",
		refLevel: -1, paddedLength: -1, maxLength: -1,
	}
}

// Name names the layer. Its result gets this name, its parameters name.w_0 and name.b_0, its intermediate results name.tmp_0.
func Name(name string) Option { return Option{"Name", func(s *settings) { s.name = name }} }

// Param sets how the weight of a layer is created.
func Param(attr ParamAttr) Option { return Option{"Param", func(s *settings) { s.param = attr }} }

// Bias sets how the bias of a layer is created.
func Bias(attr ParamAttr) Option { return Option{"Bias", func(s *settings) { s.bias = attr }} }

// NoBias leaves the bias out.
func NoBias() Option { return Option{"NoBias", func(s *settings) { s.noBias = true }} }

// Act appends an activation by the type of its op, such as "relu", "tanh" or "softmax".
func Act(opType string) Option { return Option{"Act", func(s *settings) { s.act = opType }} }

// NumFlattenDims sets how many leading axes of the input of FC are rows of its matrix. The other axes are flattened to columns. The default is 1.
func NumFlattenDims(n int) Option {
	return Option{"NumFlattenDims", func(s *settings) { s.flatten = n }}
}

// DType sets the element type of a result; the default is float32.
func DType(dtype tensor.DType) Option { return Option{"DType", func(s *settings) { s.dtype = dtype }} }

// Axis sets the axis of a layer. A negative axis counts from the end.
func Axis(axis int) Option { return Option{"Axis", func(s *settings) { s.axis = axis }} }

// Epsilon sets the small number that keeps a division or logarithm finite.
func Epsilon(epsilon float64) Option {
	return Option{"Epsilon", func(s *settings) { s.epsilon = epsilon }}
}

// IsTest builds the layer for use after training: dropout drops nothing, and batch norm uses the moving statistics.
func IsTest() Option { return Option{"IsTest", func(s *settings) { s.isTest = true }} }

// given reports whether an option of that name is among some.
func given(opts []Option, name string) bool {
	return slices.ContainsFunc(opts, func(o Option) bool { return o.name == name })
}

// apply applies options. It returns a fault if the layer does not take one of them.
func (s *settings) apply(layer string, opts []Option, takes []string) *fault.Fault {
	for _, o := range opts {
		if !slices.Contains(takes, o.name) {
			return fault.E(fault.InvalidArgument, fault.At("layer "+layer), fault.Gotf("option %s", o.name),
				fault.Want("one of "+strings.Join(takes, ", ")))
		}
		o.set(s)
	}
	return nil
}
