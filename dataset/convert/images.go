package convert

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	_ "image/jpeg" // JPEG files
	_ "image/png"  // PNG files
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/internal/ordered"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
	"golang.org/x/image/draw"
)

// An ImageFolder is a folder of pictures: a folder for each class, with the files of the class in it and below.
type ImageFolder struct {
	Root    fs.FS
	Classes []string // names of the folders, in the order of their bytes: the label of a file is the place of its class
	files   []imageFile
}

type imageFile struct {
	path  string
	label int64
	hash  uint64 // of the path: the order of records, and which set has the file
}

// ImageOptions say what becomes of a picture.
type ImageOptions struct {
	Height, Width int
	Gray          bool    // one channel, and not red, green and blue
	Test          float64 // share of the files for the test, from 0 to less than 1, chosen by a hash of their paths
	Workers       int     // files that are decoded at a time
}

// Bounds on pictures.
const (
	maxPicture = 1 << 26 // pixels of a file
	maxScaled  = 1 << 22 // elements of a record
	maxFile    = 1 << 28 // bytes of a file
)

// OpenImages lists the PNG and JPEG files of a folder. Other files, and those whose names begin with a dot, are left out. A folder is no class if it is empty, and an error if
// it has other files alone: without it the classes behind it would have other labels.
func OpenImages(root fs.FS) (*ImageFolder, error) {
	f := &ImageFolder{Root: root}
	classes, err := fs.ReadDir(root, ".")
	if err != nil {
		return nil, fault.File(fault.InvalidArgument, "images", err)
	}
	for _, class := range classes {
		if strings.HasPrefix(class.Name(), ".") {
			continue
		}
		if err := noLink(class.Name(), class); err != nil {
			return nil, err
		}
		if !class.IsDir() {
			if isPicture(class.Name()) {
				return nil, fault.E(fault.InvalidArgument, fault.At(class.Name()), fault.Got("a picture beside the folders of classes"), fault.Want("it in the folder of its class"))
			}
			continue
		}
		before, others := len(f.files), 0
		err := fs.WalkDir(root, class.Name(), func(name string, entry fs.DirEntry, err error) error {
			if err != nil {
				return fault.File(fault.InvalidArgument, name, err)
			}
			if strings.HasPrefix(path.Base(name), ".") {
				return nil
			}
			if err := noLink(name, entry); err != nil || !entry.Type().IsRegular() {
				return err
			}
			switch {
			case isPicture(name):
				f.files = append(f.files, imageFile{name, int64(len(f.Classes)), xxhash.Sum64String(name)})
			default:
				others++
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		switch {
		case len(f.files) > before:
			f.Classes = append(f.Classes, class.Name())
		case others > 0:
			return nil, fault.E(fault.InvalidArgument, fault.At(class.Name()), fault.Gotf("a folder without .png, .jpg or .jpeg files, and with %d others", others),
				fault.Want("pictures of a class"), fault.Hint("convert pictures of other formats, or move the folder away"))
		}
	}
	if len(f.Classes) < 2 {
		return nil, fault.E(fault.InvalidArgument, fault.Gotf("%d folders with .png, .jpg or .jpeg files", len(f.Classes)), fault.Want("at least two, one for each class"))
	}
	slices.SortFunc(f.files, func(a, b imageFile) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.path, b.path)) })
	return f, nil
}

func isPicture(name string) bool {
	return slices.Contains([]string{".png", ".jpg", ".jpeg"}, strings.ToLower(path.Ext(name)))
}

// noLink refuses a symbolic link: left out it would be missed, and followed it may lead out of the folder.
func noLink(name string, entry fs.DirEntry) error {
	if entry.Type()&fs.ModeSymlink == 0 {
		return nil
	}
	return fault.E(fault.InvalidArgument, fault.At(name), fault.Got("a symbolic link"), fault.Want("files and folders"), fault.Hint("\"cp -rL\" copies what links lead to; hard links are fine, too"))
}

// A picture is a file while it becomes a record.
type picture struct {
	imageFile
	record []byte
	err    error
}

// Write converts all files into records of image float32[channels height width] and label int64[1], in an order that mixes the classes and depends on the paths alone.
// A picture is scaled until it covers height and width, and its middle is taken. A value v of 0 to 255 becomes v/255.
func (f *ImageFolder) Write(ctx context.Context, o ImageOptions, train, test dataset.RecordWriter) error {
	channels := 3
	if o.Gray {
		channels = 1
	}
	if o.Height < 1 || o.Width < 1 || o.Height > maxScaled || o.Width > maxScaled/channels/o.Height {
		return fault.E(fault.InvalidArgument, fault.Gotf("pictures of %d times %d pixels", o.Height, o.Width), fault.Wantf("at least 1 times 1, and at most %d numbers in all", maxScaled))
	}
	if !(o.Test >= 0 && o.Test < 1) {
		return fault.E(fault.InvalidArgument, fault.Gotf("a share of %v for the test", o.Test), fault.Want("0 to less than 1"))
	}
	return ordered.Run(ctx, "images", o.Workers, func(put func(*picture) error) error {
		for _, file := range f.files {
			if err := put(&picture{imageFile: file}); err != nil {
				return err
			}
		}
		return nil
	}, func(p *picture) { p.record, p.err = f.record(p.imageFile, o, channels) }, func(p *picture) error {
		switch {
		case p.err != nil:
			return p.err
		case float64(p.hash>>11)/(1<<53) < o.Test:
			return test.Write(p.record)
		}
		return train.Write(p.record)
	})
}

// record reads a file. A size that the file only claims allocates nothing.
func (f *ImageFolder) record(file imageFile, o ImageOptions, channels int) ([]byte, error) {
	wrong := func(got, want string, err error) error {
		return fault.E(fault.Corrupt, fault.At(file.path), fault.Got(got), fault.Want(want), fault.Cause(err))
	}
	open, err := f.Root.Open(file.path)
	if err != nil {
		return nil, fault.File(fault.InvalidArgument, file.path, err)
	}
	defer open.Close()
	b, err := io.ReadAll(io.LimitReader(open, maxFile+1))
	switch {
	case err != nil:
		return nil, fault.File(fault.Unavailable, file.path, err)
	case len(b) > maxFile:
		return nil, wrong("a larger file", fmt.Sprintf("at most %d bytes", maxFile), nil)
	}
	config, _, err := image.DecodeConfig(bytes.NewReader(b))
	if err != nil {
		return nil, wrong("a file that is no picture", "PNG or JPEG", errors.New(err.Error()))
	}
	if config.Width < 1 || config.Height < 1 || config.Height > maxPicture/config.Width {
		return nil, wrong(fmt.Sprintf("%d times %d pixels", config.Height, config.Width), fmt.Sprintf("at most %d in all", maxPicture), nil)
	}
	decoded, _, err := image.Decode(bytes.NewReader(b))
	if err != nil {
		return nil, wrong("a damaged picture", "a whole one", errors.New(err.Error()))
	}
	return dataset.AppendRecord(nil, scaled(decoded, o, channels), classOf(file.label)), nil
}

func classOf(label int64) *tensor.Tensor {
	t, _ := tensor.FromSlice([]int64{label}, 1) // one element is no wrong shape
	return t
}

// scaled is the picture as float32[channels height width]. Transparent parts are on black.
func scaled(from image.Image, o ImageOptions, channels int) *tensor.Tensor {
	part := covered(from.Bounds(), o.Width, o.Height)
	to := image.NewRGBA(image.Rect(0, 0, o.Width, o.Height))
	draw.BiLinear.Scale(to, to.Bounds(), from, part, draw.Over, nil)
	values := make([]float32, channels*o.Height*o.Width)
	plane := o.Height * o.Width
	for i := range plane {
		r, g, b := float32(to.Pix[4*i]), float32(to.Pix[4*i+1]), float32(to.Pix[4*i+2])
		if channels == 1 {
			values[i] = (0.299*r + 0.587*g + 0.114*b) / 255 // luma of ITU-R BT.601
			continue
		}
		values[i], values[plane+i], values[2*plane+i] = r/255, g/255, b/255
	}
	t, _ := tensor.FromSlice(values, int64(channels), int64(o.Height), int64(o.Width)) // as many as made
	return t
}

// covered is the largest part in the middle of a picture that has the proportions of width and height.
func covered(of image.Rectangle, width, height int) image.Rectangle {
	w, h := of.Dx(), of.Dy()
	if w*height > h*width {
		w = max(1, h*width/height)
	} else {
		h = max(1, w*height/width)
	}
	x, y := of.Min.X+(of.Dx()-w)/2, of.Min.Y+(of.Dy()-h)/2
	return image.Rect(x, y, x+w, y+h)
}
