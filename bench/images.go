package bench

import "github.com/edl-go/edl/layers"

// An imageNet builds a network for images and counts its products.
type imageNet struct {
	*builder
	batch int64
}

// pictures begins a classifier of images of 32 x 32 pixels and three colours, as those of CIFAR-10.
func pictures(b *builder, arguments string, otherwise int64) (imageNet, layers.Variable) {
	n := imageNet{b, batchOf(b, arguments, otherwise)}
	return n, b.numbers("image", n.batch, 3, 32, 32)
}

// convolution is a convolution without bias, batch normalization and an activation, "" for none.
func (n imageNet) convolution(x layers.Variable, filters, size int64, stride, groups int, act string) layers.Variable {
	pad := int(size-1) / 2
	h := layers.Conv2D(x, filters, size, layers.Stride(stride, stride), layers.Padding(pad, pad), layers.Groups(groups), layers.NoBias())
	n.multiplies(n.batch*elements(h.Dims()[1:])*x.Dims()[1]/int64(groups)*size*size, x.Name() == "image")
	if act == "" {
		return layers.BatchNorm(h)
	}
	return layers.BatchNorm(h, layers.Act(act))
}

// classes is the last layer and the loss.
func (n imageNet) classes(h layers.Variable) layers.Variable {
	const classes = 10
	n.multiplies(n.batch*elements(h.Dims()[1:])*classes, false)
	return n.classify(layers.FC(h, classes), n.batch, classes)
}

// vgg16 is VGG-16 (Simonyan and Zisserman 2014) for images of 32 x 32 pixels, with batch normalization and dropout, as in Fluid's book. Its argument is the batch;
// without one it is 32.
func vgg16(b *builder, arguments string) layers.Variable {
	n, h := pictures(b, arguments, 32)
	for i, convolutions := range []int{2, 2, 3, 3, 3} {
		for range convolutions {
			h = n.convolution(h, 64<<min(i, 3), 3, 1, 1, "relu")
		}
		h = layers.Pool2D(h, 2, layers.Stride(2, 2))
	}
	for range 2 {
		h = layers.BatchNorm(layers.FC(layers.Dropout(h, 0.5, layers.UpscaleInTrain()), 512), layers.Act("relu"))
		n.multiplies(n.batch*512*512, false)
	}
	return n.classes(h)
}

// resnet32 is a residual network of 32 layers (He et al. 2015) for images of 32 x 32 pixels. Its argument is the batch; without one it is 64.
func resnet32(b *builder, arguments string) layers.Variable {
	n, h := pictures(b, arguments, 64)
	h = n.convolution(h, 16, 3, 1, 1, "relu")
	for group := range 3 {
		for block := range 5 {
			stride, filters, input := 1, int64(16<<group), h
			if group > 0 && block == 0 {
				stride = 2
				input = n.convolution(h, filters, 1, stride, 1, "")
			}
			inner := n.convolution(h, filters, 3, stride, 1, "relu")
			h = layers.Add(n.convolution(inner, filters, 3, 1, 1, ""), input, layers.Act("relu"))
		}
	}
	return n.classes(layers.Pool2D(h, 8, layers.AvgPool()))
}

// mobilenet is a network of depthwise convolutions, each followed by one of 1 x 1 (Howard et al. 2017), for images of 32 x 32 pixels. Its argument is the batch;
// without one it is 64.
func mobilenet(b *builder, arguments string) layers.Variable {
	n, h := pictures(b, arguments, 64)
	h = n.convolution(h, 32, 3, 1, 1, "relu")
	for _, block := range []struct {
		filters int64
		stride  int
	}{{64, 1}, {128, 2}, {128, 1}, {256, 2}, {256, 1}, {512, 2}} {
		channels := int(h.Dims()[1])
		h = n.convolution(n.convolution(h, int64(channels), 3, block.stride, channels, "relu"), block.filters, 1, 1, 1, "relu")
	}
	return n.classes(layers.Pool2D(h, 4, layers.AvgPool()))
}
