package digits

import (
	"image"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/edl-go/edl/fault"
	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/gobolditalic"
	"golang.org/x/image/font/gofont/goitalic"
	"golang.org/x/image/font/gofont/gomedium"
	"golang.org/x/image/font/gofont/gomono"
	"golang.org/x/image/font/gofont/gomonobold"
	"golang.org/x/image/font/gofont/gomonoitalic"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
)

var fonts = [][]byte{
	goregular.TTF, gomedium.TTF, gobold.TTF, goitalic.TTF, gobolditalic.TTF, gomono.TTF, gomonobold.TTF, gomonoitalic.TTF,
}

const (
	maskSide   = 40 // pixels; leaves a margin around every digit
	fontSize   = 36 // pixels, which makes digits glyphHigh high
	glyphHigh  = 26 // about, in pixels of a mask
	digitCount = 10
)

// A mask is the coverage of the pixels by a digit, 0 to 255, row by row, with the digit in the middle.
type mask [maskSide * maskSide]uint8

// glyphs renders every digit of every font, once per process.
var glyphs = sync.OnceValues(func() (masks [][digitCount]mask, err error) {
	masks = make([][digitCount]mask, len(fonts))
	for i, ttf := range fonts {
		parsed, err := opentype.Parse(ttf)
		if err != nil {
			return nil, fault.Wrap(fault.Internal, "digits", err)
		}
		face, err := opentype.NewFace(parsed, &opentype.FaceOptions{Size: fontSize, DPI: 72})
		if err != nil {
			return nil, fault.Wrap(fault.Internal, "digits", err)
		}
		for digit := range digitCount {
			masks[i][digit] = render(face, rune('0'+digit))
		}
		face.Close()
	}
	return masks, nil
})

// render draws one digit, its bounding box centred.
func render(face font.Face, digit rune) (m mask) {
	bounds, _, _ := face.GlyphBounds(digit)
	const middle = fixed.Int26_6(maskSide / 2 * 64)
	drawer := font.Drawer{
		Dst:  &image.Alpha{Pix: m[:], Stride: maskSide, Rect: image.Rect(0, 0, maskSide, maskSide)},
		Src:  image.Opaque,
		Face: face,
		Dot: fixed.Point26_6{
			X: middle - (bounds.Min.X+bounds.Max.X)/2,
			Y: middle - (bounds.Min.Y+bounds.Max.Y)/2,
		},
	}
	drawer.DrawString(string(digit))
	return m
}

// A warp maps a pixel of the image to a place in the mask: u = ux*x + uy*y + u0, and v likewise, in 65536ths of a mask pixel. Integers give the
// same result on machines with and without fused multiplication and addition.
type warp struct {
	ux, uy, u0 int
	vx, vy, v0 int
}

// Bounds of the random distortion, each drawn evenly.
const (
	maxTurn   = 0.22 // radians to either side, 12.6 degrees
	maxShear  = 0.2
	minHeight = 15.0 // pixels
	maxHeight = 21.0
	maxNarrow = 0.2 // of the width, to either side
	maxShift  = 2.0 // pixels
)

// one is 1 in 65536ths.
const one = 1 << 16

// randomWarp draws a distortion around the middle of the image.
func randomWarp(random *rand.Rand) warp {
	between := func(low, high float64) float64 { return low + float64(random.Float64()*(high-low)) }
	sin, cos := math.Sincos(between(-maxTurn, maxTurn))
	shear := between(-maxShear, maxShear)
	sy := glyphHigh / between(minHeight, maxHeight)
	sx := sy / between(1-maxNarrow, 1+maxNarrow)
	middleX, middleY := between(-maxShift, maxShift)+Side/2-0.5, between(-maxShift, maxShift)+Side/2-0.5

	fix := func(v float64) int { return int(math.Round(v * one)) }
	w := warp{
		ux: fix(sx * (cos + float64(shear*sin))), uy: fix(sx * (float64(shear*cos) - sin)),
		vx: fix(sy * sin), vy: fix(sy * cos),
	}
	const middle = (maskSide/2)*one - one/2
	x, y := fix(middleX), fix(middleY)
	w.u0 = middle - (w.ux*x+w.uy*y)/one
	w.v0 = middle - (w.vx*x+w.vy*y)/one
	return w
}

// draw samples the mask for every pixel of the image, between the four nearest mask pixels.
func (w warp) draw(m *mask, image *[Side * Side]uint8) {
	for y := range Side {
		u, v := w.uy*y+w.u0, w.vy*y+w.v0
		for x := range Side {
			image[Side*y+x] = m.at(u, v)
			u, v = u+w.ux, v+w.vx
		}
	}
}

// at is the coverage at a place, 0 outside of the mask.
func (m *mask) at(u, v int) uint8 {
	column, row := u>>16, v>>16
	if column < 0 || row < 0 || column >= maskSide-1 || row >= maskSide-1 {
		return 0
	}
	fu, fv := u>>8&0xff, v>>8&0xff
	p := m[row*maskSide+column:]
	top := int(p[0])*(256-fu) + int(p[1])*fu
	bottom := int(p[maskSide])*(256-fu) + int(p[maskSide+1])*fu
	return uint8((top*(256-fv) + bottom*fv) >> 16)
}
