package digits

import (
	"image"
	"sync"

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

	"github.com/edl-go/edl/fault"
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

// A mask is the coverage of a digit by its font, 0 to 255, row by row, with the middle of the digit in the middle.
type mask [maskSide * maskSide]uint8

// glyphs renders every digit of every font, once in the life of the process.
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
