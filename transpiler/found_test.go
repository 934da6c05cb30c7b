package transpiler_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/lawcheck"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/transpiler"
)

// A scene is the data of pictures with objects, and what a layer makes of it.
type scene struct {
	objects layers.Objects
	feature layers.Variable // [-1, 3, 8, 8]
	anchors layers.Anchors
	scores  layers.Variable // [-1, 1, 8, 8]
	codes   layers.Variable
	boxes   layers.Variable // anchors as their op makes them
	factors layers.Variable
}

func newScene(m *layers.Model, classes int64) (s scene) {
	image := layers.Data(m, "image", layers.Dims(1, 16, 16))
	s.objects = layers.Objects{Boxes: layers.Data(m, "gt_box", layers.Dims(4), layers.LoD(1)), Images: layers.Data(m, "im_info", layers.Dims(3)),
		Classes: layers.Data(m, "gt_label", layers.Dims(1), layers.LoD(1), layers.DType(tensor.Int32)), Crowd: layers.Data(m, "is_crowd", layers.Dims(1), layers.LoD(1), layers.DType(tensor.Int32))}
	s.feature = layers.Conv2D(image, 3, 3, layers.Stride(2, 2), layers.Padding(1, 1), layers.Act("tanh"))
	s.boxes, s.factors = layers.AnchorGenerator(s.feature, []float64{6}, []float64{1}, 2, 2)
	s.scores, s.codes = layers.Conv2D(s.feature, classes, 1), layers.Conv2D(s.feature, 4, 1)
	last := func(x layers.Variable) layers.Variable { return layers.Transpose(x, []int{0, 2, 3, 1}) }
	s.anchors = layers.Anchors{Boxes: layers.Reshape(s.boxes, []int64{-1, 4}), Codes: last(s.codes), Scores: last(s.scores)}
	return s
}

// firstStage is the loss of a region proposal network, as PaddleDetection writes it: the distance of boxes is divided by the number of labels.
func (s scene) firstStage() layers.Variable {
	found := layers.RPNTargetAssign(s.anchors, s.objects, layers.RPNTargets{Size: 12, Share: 0.5, Positive: 0.5, Negative: 0.3})
	labels := layers.Cast(found.Labels, tensor.Float32).StopGradient()
	cost := layers.ReduceMean(layers.SigmoidCrossEntropyWithLogits(found.Scores, labels))
	number := layers.ReduceProd(layers.Cast(layers.Shape(labels), tensor.Float32)).StopGradient()
	return layers.Add(cost, layers.Div(layers.ReduceSum(layers.SmoothL1(found.Codes, found.TargetCodes, 3, layers.ElementWeights(found.Weights, found.Weights))), number))
}

// regions are those that a proposal network proposes.
func (s scene) regions() layers.Variable {
	regions, _ := layers.GenerateProposals(layers.Sigmoid(s.scores), s.codes, s.objects.Images, s.boxes, s.factors, layers.Proposals{BeforeNMS: 32, AfterNMS: 6, Threshold: 0.7})
	return regions.StopGradient()
}

func (s scene) secondStage() (layers.RegionTargets, layers.Variable) {
	second := layers.GenerateProposalLabels(s.regions(), s.objects, layers.ProposalLabels{Size: 6, Share: 0.5, Object: 0.5, High: 0.5, Classes: 3})
	pooled := layers.FC(layers.RoiAlign(s.feature, second.Regions, 2, 2, 0.5, 2), 5, layers.Act("tanh"))
	class, _ := layers.SoftmaxWithCrossEntropy(layers.FC(pooled, 3), layers.Cast(second.Labels, tensor.Int64).StopGradient())
	box := layers.SmoothL1(layers.FC(pooled, 12), second.Codes, 1, layers.ElementWeights(second.Inside, second.Outside))
	return second, layers.Add(layers.ReduceMean(class), layers.ReduceMean(box))
}

// found are losses of what ops find in pictures.
var found = map[string]func(m *layers.Model) layers.Variable{
	"Faster R-CNN": func(m *layers.Model) layers.Variable {
		s := newScene(m, 1)
		_, second := s.secondStage()
		return layers.Add(s.firstStage(), second)
	},
	"Mask R-CNN": func(m *layers.Model) layers.Variable {
		s := newScene(m, 1)
		outlines := layers.Data(m, "gt_mask", layers.Dims(2), layers.LoD(3))
		second, loss := s.secondStage()
		regions, _, masks := layers.GenerateMaskLabels(second.Regions, second.Labels, outlines, s.objects, 3, 4)
		logits := layers.Conv2D(layers.RoiAlign(s.feature, regions, 4, 4, 0.5, 2), 3, 1)
		cost := layers.SigmoidCrossEntropyWithLogits(layers.Reshape(logits, []int64{-1, 48}), layers.Cast(masks, tensor.Float32).StopGradient(), layers.IgnoreIndex(-1))
		counts := layers.Cast(layers.NotEqual(masks, layers.FillLike(masks, -1)), tensor.Float32).StopGradient()
		return layers.Add(loss, layers.ReduceSum(layers.Div(cost, layers.Add(layers.ReduceSum(counts), layers.FillConstant(m, 1, []int64{1})))))
	},
	"RetinaNet": func(m *layers.Model) layers.Variable {
		s := newScene(m, 2)
		found := layers.RetinanetTargetAssign(s.anchors, s.objects, 2, 0.5, 0.3)
		number := layers.ReduceSum(found.Found).StopGradient()
		cost := layers.ReduceSum(layers.SigmoidFocalLoss(found.Scores, found.Labels, number, 2, 0.25))
		distance := layers.ReduceSum(layers.SmoothL1(found.Codes, found.TargetCodes, 3, layers.ElementWeights(found.Weights, found.Weights)))
		return layers.Add(cost, layers.Div(distance, layers.Cast(number, tensor.Float32)))
	},
}

// pictures draws a batch of pictures with one to three objects.
func pictures(t *testing.T, p *program.Program, random *rand.Rand) executor.Feed {
	t.Helper()
	feed := executor.Feed{}
	give := func(name string, value *tensor.Tensor, err error, lod ...[]int64) {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := p.Global().Var(name); ok {
			value.SetLoD(lod)
			feed[name] = value
		}
	}
	pixels := make([]float32, batchRows*16*16)
	for i := range pixels {
		pixels[i] = random.Float32() - 0.5
	}
	var boxes, corners, info []float32
	var labels []int32
	offsets, polygons, points := []int64{0}, []int64{0}, []int64{0}
	for range batchRows {
		for range 1 + random.IntN(3) {
			x, y, w, h := 8*random.Float32(), 8*random.Float32(), 3+4*random.Float32(), 3+4*random.Float32()
			boxes = append(boxes, x, y, x+w, y+h)
			corners = append(corners, x, y, x+w, y, x+w, y+h, x, y+h)
			labels = append(labels, 1+int32(random.IntN(2)))
			polygons, points = append(polygons, int64(len(labels))), append(points, 4*int64(len(labels)))
		}
		offsets, info = append(offsets, int64(len(labels))), append(info, 16, 16, 1)
	}
	n := int64(len(labels))
	value, err := tensor.FromSlice(pixels, batchRows, 1, 16, 16)
	give("image", value, err)
	value, err = tensor.FromSlice(info, batchRows, 3)
	give("im_info", value, err)
	value, err = tensor.FromSlice(boxes, n, 4)
	give("gt_box", value, err, offsets)
	value, err = tensor.FromSlice(labels, n, 1)
	give("gt_label", value, err, offsets)
	value, err = tensor.FromSlice(make([]int32, n), n, 1)
	give("is_crowd", value, err, offsets)
	value, err = tensor.FromSlice(corners, 4*n, 2)
	give("gt_mask", value, err, offsets, polygons, points)
	return feed
}

// Detectors of two stages and of one obey the law, also where chance chooses what they learn from, and trainers that divide the pictures learn what one machine learns, up to rounding.
func TestRowsThatAreFoundInPictures(t *testing.T) {
	for name, loss := range found {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := layers.NewModel().Seed(3)
			optimizer.SGD(0.05).Minimize(layers.Scale(loss(m), 1, 0, layers.Name("loss")))
			p := built(t, m)
			var batches []executor.Feed
			random := rand.New(rand.NewPCG(1, 2))
			for range steps {
				batches = append(batches, pictures(t, p, random))
			}
			for _, cfg := range []transpiler.Config{{Trainers: 2, PServers: 2}, {Trainers: 4, PServers: 1, MinBlockSize: 4}, {Trainers: 1, PServers: 2, Mode: transpiler.Async}} {
				if err := lawcheck.Check(t.Context(), p, cfg, batches, batchRows, "loss", "conv2d_0.w_0"); err != nil {
					t.Errorf("%+v: %v", cfg, err)
				}
			}
			var weights [2][]float32
			for i, trainers := range []int{1, 3} {
				e, err := reference.New(p, trainers)
				if err != nil {
					t.Fatal(err)
				}
				defer e.Close()
				if _, err := e.Run(t.Context(), p, batches[0]); err != nil {
					t.Fatal(err)
				}
				w, _ := e.Scope().Find("conv2d_0.w_0")
				weights[i] = w.Float32s()
			}
			for i, want := range weights[0] {
				if got := weights[1][i]; math.Abs(float64(got-want)) > 1e-5*max(1, math.Abs(float64(want))) {
					t.Fatalf("conv2d_0.w_0[%d] is %v with three trainers, %v with one", i, got, want)
				}
			}
		})
	}
}

// What is found in all pictures together, and numbers of regions that do not count those of the batch, need the whole batch.
func TestFindingsThatNeedTheWholeBatch(t *testing.T) {
	for name, loss := range map[string]func(m *layers.Model) layers.Variable{
		"the best regions of all pictures": func(m *layers.Model) layers.Variable {
			s := newScene(m, 1)
			regions, scores := layers.GenerateProposals(layers.Sigmoid(s.scores), s.codes, s.objects.Images, s.boxes, s.factors, layers.Proposals{BeforeNMS: 32, AfterNMS: 6, Threshold: 0.7})
			best := layers.CollectFPNProposals([]layers.Variable{regions}, []layers.Variable{scores}, 8)
			return layers.Mean(layers.FC(layers.RoiAlign(s.feature, best, 2, 2, 0.5, 2), 1))
		},
		"regions by their number in the picture": func(m *layers.Model) layers.Variable {
			s := newScene(m, 1)
			second, _ := s.secondStage()
			_, index, _ := layers.GenerateMaskLabels(second.Regions, second.Labels, layers.Data(m, "gt_mask", layers.Dims(2), layers.LoD(3)), s.objects, 3, 4)
			return layers.Mean(layers.FC(layers.Gather(layers.RoiAlign(s.feature, second.Regions, 2, 2, 0.5, 2), index), 1))
		},
		"anchors of another map": func(m *layers.Model) layers.Variable {
			s := newScene(m, 1)
			s.anchors.Scores = layers.Concat([]layers.Variable{s.anchors.Scores, s.anchors.Scores}, 1)
			return s.firstStage()
		},
		"the dims of found rows": func(m *layers.Model) layers.Variable {
			s := newScene(m, 1)
			number := layers.Cast(layers.Shape(s.regions()), tensor.Float32)
			return layers.Div(layers.Mean(s.feature), layers.ReduceMax(number))
		},
		"found rows beside others": func(m *layers.Model) layers.Variable {
			s := newScene(m, 1)
			second, _ := s.secondStage()
			return layers.Mean(layers.FC(layers.Mul(second.Regions, s.regions()), 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := layers.NewModel().Seed(3)
			optimizer.SGD(0.1).Minimize(loss(m))
			_, err := transpiler.Transpile(t.Context(), built(t, m), transpiler.Config{Trainers: 2, PServers: 1})
			if fault.KindOf(err) != fault.Unsupported || strings.Contains(err.Error(), "share sums") {
				t.Errorf("%v", err)
			}
		})
	}
}
