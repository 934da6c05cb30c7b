package executor_test

import (
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// TestTwoStagesLearnToFindObjects trains a small Faster R-CNN: a region proposal network, and a second stage on the regions that it proposes. How many anchors and regions there
// are is known only when their ops have run, and gradients flow through what depends on them.
func TestTwoStagesLearnToFindObjects(t *testing.T) {
	m := layers.NewModel().Seed(1)
	image := layers.Data(m, "image", layers.Dims(1, 16, 16))
	objects := layers.Objects{Boxes: layers.Data(m, "gt_box", layers.Dims(4), layers.LoD(1)), Images: layers.Data(m, "im_info", layers.Dims(3)),
		Classes: layers.Data(m, "gt_label", layers.Dims(1), layers.LoD(1), layers.DType(tensor.Int32)), Crowd: layers.Data(m, "is_crowd", layers.Dims(1), layers.LoD(1), layers.DType(tensor.Int32))}
	h := layers.Conv2D(image, 4, 3, layers.Stride(2, 2), layers.Padding(1, 1), layers.Act("relu"))
	anchors, variances := layers.AnchorGenerator(h, []float64{4, 8}, []float64{1}, 2, 2)
	scores, codes := layers.Conv2D(h, 2, 1), layers.Conv2D(h, 8, 1)
	last := func(x layers.Variable) layers.Variable { return layers.Transpose(x, []int{0, 2, 3, 1}) }
	first := layers.RPNTargetAssign(layers.Anchors{Boxes: layers.Reshape(anchors, []int64{-1, 4}), Codes: last(codes), Scores: last(scores)}, objects,
		layers.RPNTargets{Size: 16, Share: 0.5, Positive: 0.7, Negative: 0.3})
	cost := layers.ReduceMean(layers.SigmoidCrossEntropyWithLogits(first.Scores, layers.Cast(first.Labels, tensor.Float32)))
	distance := layers.ReduceMean(layers.SmoothL1(first.Codes, first.TargetCodes, 3, layers.ElementWeights(first.Weights, first.Weights)))
	regions, _ := layers.GenerateProposals(layers.Sigmoid(scores), codes, objects.Images, anchors, variances, layers.Proposals{BeforeNMS: 32, AfterNMS: 8, Threshold: 0.7})
	second := layers.GenerateProposalLabels(regions.StopGradient(), objects, layers.ProposalLabels{Size: 8, Share: 0.5, Object: 0.5, High: 0.5, Classes: 3})
	pooled := layers.FC(layers.RoiAlign(h, second.Regions, 2, 2, 0.5, 2), 8, layers.Act("relu"))
	class, _ := layers.SoftmaxWithCrossEntropy(layers.FC(pooled, 3), layers.Cast(second.Labels, tensor.Int64).StopGradient())
	box := layers.SmoothL1(layers.FC(pooled, 12), second.Codes, 1, layers.ElementWeights(second.Inside, second.Outside))
	loss := layers.Sums([]layers.Variable{cost, distance, layers.ReduceMean(class), layers.ReduceMean(box)}, layers.Name("loss"))
	optimizer.Momentum(0.02, 0.9).Minimize(loss)
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	data, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if p, err = program.Decode(data, program.Limits{}); err != nil {
		t.Fatal(err)
	}
	local := executor.New()
	defer local.Close()
	var before, now float32
	for step := range 60 {
		got, err := local.Run(t.Context(), p, sceneOf(t, step%3), "loss")
		if err != nil {
			t.Fatal(err)
		}
		if now += got[0].Float32s()[0]; step == 2 {
			before = now
		}
		if step%3 == 2 && step < 59 {
			now = 0
		}
	}
	if !(now < 0.6*before) {
		t.Errorf("the loss of three batches is %v at the end, and was %v", now, before)
	}
}

// sceneOf makes a batch of two images: a bright square of class 1, and a bright and a dark one of classes 1 and 2, at places that depend on at.
func sceneOf(t *testing.T, at int) executor.Feed {
	t.Helper()
	pixels := make([]float32, 2*16*16)
	var boxes []float32
	paint := func(image, left, top int, value float32) {
		for y := top; y < top+6; y++ {
			for x := left; x < left+6; x++ {
				pixels[(image*16+y)*16+x] = value
			}
		}
		boxes = append(boxes, float32(left), float32(top), float32(left+5), float32(top+5))
	}
	paint(0, 2+at, 3, 1)
	paint(1, 1, 1+at, 1)
	paint(1, 9, 8-at, -1)
	feed := executor.Feed{}
	give := func(name string, value *tensor.Tensor, err error, sequences bool) {
		if err != nil {
			t.Fatal(err)
		}
		if sequences {
			value.SetLoD([][]int64{{0, 1, 3}})
		}
		feed[name] = value
	}
	value, err := tensor.FromSlice(pixels, 2, 1, 16, 16)
	give("image", value, err, false)
	value, err = tensor.FromSlice([]float32{16, 16, 1, 16, 16, 1}, 2, 3)
	give("im_info", value, err, false)
	value, err = tensor.FromSlice(boxes, 3, 4)
	give("gt_box", value, err, true)
	value, err = tensor.FromSlice([]int32{1, 1, 2}, 3, 1)
	give("gt_label", value, err, true)
	value, err = tensor.FromSlice([]int32{0, 0, 0}, 3, 1)
	give("is_crowd", value, err, true)
	return feed
}
