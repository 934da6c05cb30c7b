package convert

import (
	"context"
	"io"
	"strings"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// TextOptions says how lines of text become samples.
type TextOptions struct {
	Vocabulary *Vocabulary
	Keys       bool // in place of a vocabulary, the number of a word is its key for a table that grows (Key); what is filled is -1, which is no key
	Lower      bool // words are made lower case before they are looked up
	Most       int  // words of a sample; the others are left out. 0 for all

	// Next makes samples for a language model, whose label is the next word. The lines have no labels.
	Next bool
	// Length, if it is not 0, makes all samples equally long, without LoD: the rest is left out, or filled with the word Pad of the vocabulary.
	Length int
	Pad    string
}

// Text converts each line into a sample, and returns the number of samples. A line is a label, which is a class from 0 on, a tab, and words between spaces; the sample
// is the sequence of the numbers of the words int64[words, 1], and the label int64[1]. With Next a line has only words, and a sample is all words but the
// last, and all words but the first; lines of fewer than two words are left out.
func Text(ctx context.Context, r io.Reader, w dataset.RecordWriter, options TextOptions) (int, error) {
	if (options.Vocabulary == nil) != options.Keys || options.Length < 0 || options.Most < 0 || options.Length > 0 && options.Next {
		return 0, fault.E(fault.InvalidArgument, fault.Gotf("a vocabulary: %v, keys: %v, length %d, at most %d words, next: %v", options.Vocabulary != nil, options.Keys,
			options.Length, options.Most, options.Next), fault.Want("a vocabulary or keys, lengths from 0 on, and no length with next"))
	}
	c := &textConverter{TextOptions: options, label: make([]int64, 1), pad: -1}
	if options.Length > 0 {
		c.Most = options.Length
		if pad, ok := options.Vocabulary.numberOf(options.Pad); ok {
			c.pad = pad
		} else if !options.Keys {
			return 0, fault.E(fault.NotFound, fault.Got("no word "+fault.Quote(options.Pad)+" in the vocabulary"), fault.Want("a word to pad with"), fault.Hint("add it to the vocabulary as a line, or name another word (--pad WORD)"))
		}
	}
	written := 0
	err := eachLine(ctx, r, func(line string, number int) error {
		sample, err := c.convert(line)
		if err != nil {
			return placed(err, number)
		}
		if sample == nil {
			return nil
		}
		c.record = dataset.AppendRecord(c.record[:0], sample...)
		if err := w.Write(c.record); err != nil {
			return err
		}
		written++
		return nil
	})
	return written, err
}

// A textConverter reuses the memory of one sample.
type textConverter struct {
	TextOptions
	words, label []int64
	pad          int64
	record       []byte
}

// convert returns the sample of a line, nil for a line that has none.
func (c *textConverter) convert(line string) (sample []*tensor.Tensor, err error) {
	text := line
	if !c.Next {
		label, rest, labelled := strings.Cut(line, "\t")
		if !labelled {
			return nil, fault.E(fault.Corrupt, fault.Got("no tab"), fault.Want("a label, a tab, and words"), fault.Hint("lines without labels are for a model of the next word"))
		}
		var f *fault.Fault
		if c.label[0], f = parseInt(label); f != nil {
			return nil, f
		}
		if c.label[0] < 0 {
			return nil, fault.E(fault.Corrupt, fault.Got("the label "+fault.Quote(label)), fault.Want("a class from 0 on"), fault.Hint("number the classes from 0 on"))
		}
		text = rest
	}
	number := c.Vocabulary.Number
	if c.Keys {
		number = func(word string) (int64, error) { return Key(word), nil }
	}
	if c.words, err = appendNumbers(c.words[:0], text, c.Lower, c.Most, number); err != nil {
		return nil, err
	}
	if c.Next {
		if len(c.words) < 2 {
			return nil, nil
		}
		before, err := sequence(c.words[:len(c.words)-1], 1)
		if err != nil {
			return nil, err
		}
		after, err := sequence(c.words[1:], 1)
		return []*tensor.Tensor{before, after}, err
	}
	label, err := tensor.FromSlice(c.label, 1)
	if err != nil {
		return nil, err
	}
	if c.Length > 0 {
		for len(c.words) < c.Length {
			c.words = append(c.words, c.pad)
		}
		words, err := tensor.FromSlice(c.words, int64(c.Length), 1)
		return []*tensor.Tensor{words, label}, err
	}
	words, err := sequence(c.words, 1)
	return []*tensor.Tensor{words, label}, err
}

// sequence makes a sample of one level of rows of the given dims. It shares the elements.
func sequence[T tensor.Element](elements []T, dims ...int64) (*tensor.Tensor, error) {
	width, _ := tensor.Count(dims)
	rows := int64(len(elements) / max(1, width))
	t, err := tensor.FromSlice(elements, append([]int64{rows}, dims...)...)
	if err == nil {
		t.SetLoD([][]int64{{0, rows}})
	}
	return t, err
}

// placed names the line of an error.
func placed(err error, line int) error {
	if f, ok := err.(*fault.Fault); ok {
		c := *f
		c.Where = atLine(line)
		return &c
	}
	return err
}
