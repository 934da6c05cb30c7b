package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/convert"
	"github.com/edl-go/edl/examples/internal/page"
	"github.com/edl-go/edl/tensor"
)

// files are the flags that name data, and the kind of tables.
type files struct {
	criteo, criteoTest string
	binned             bool
	adult              string
	tables             string
}

// A source is a form of data and where it comes from.
type source struct {
	shape shape
	write func(out string) error // writes the datasets train and test
}

// source chooses what the flags ask for.
func (f files) source(vocabulary int64) (source, error) {
	switch {
	case f.tables != local && f.tables != distributed && f.tables != growing:
		return source{}, fmt.Errorf("-tables %q: want %s, %s or %s", f.tables, local, distributed, growing)
	case (f.criteo == "") != (f.criteoTest == ""):
		return source{}, errors.New("-criteo and -criteo-test belong together")
	case f.criteo != "" && f.adult != "":
		return source{}, errors.New("either -criteo or -adult")
	case f.criteo != "":
		return f.ofCriteo(vocabulary), nil
	case f.adult != "":
		return f.ofAdult(vocabulary), nil
	case f.binned:
		return source{}, errors.New("-binned belongs to -criteo")
	}
	s := shape{categories: 26, numbers: 13, vocabulary: vocabulary, tables: f.tables}
	return source{s, func(out string) error { return writeBoth(out, newClickers(s).write) }}, nil
}

func (f files) ofCriteo(vocabulary int64) source {
	columns := make([]string, 1+13+26)
	for i := range columns {
		columns[i] = strconv.Itoa(i)
	}
	options := convert.ClicksOptions{Comma: '\t', Label: columns[0], Numbers: columns[1:14], Categories: columns[14:], Vocabulary: f.ids(vocabulary)}
	if f.binned {
		options.Numbers, options.Categories = nil, columns[1:]
	}
	return source{f.shapeOf(options, vocabulary), func(out string) error {
		return writeBoth(out, func(train, test dataset.RecordWriter) error {
			return errors.Join(convertFile(f.criteo, train, options), convertFile(f.criteoTest, test, options))
		})
	}}
}

func (f files) ofAdult(vocabulary int64) source {
	options := convert.ClicksOptions{Header: true, Label: "income", Positive: ">50K", Vocabulary: f.ids(vocabulary),
		Categories: []string{"type_employer", "education", "marital", "occupation", "relationship", "race", "sex", "country"},
		Numbers:    []string{"age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hr_per_week"}}
	return source{f.shapeOf(options, vocabulary), func(out string) error {
		return writeBoth(out, func(train, test dataset.RecordWriter) error {
			return convertFile(f.adult, &everyFifth{train: train, test: test}, options)
		})
	}}
}

// ids returns how many ids categories have: no bound where they are keys.
func (f files) ids(vocabulary int64) int64 {
	if f.tables == growing {
		return 0
	}
	return vocabulary
}

func (f files) shapeOf(options convert.ClicksOptions, vocabulary int64) shape {
	return shape{int64(len(options.Categories)), int64(len(options.Numbers)), vocabulary, f.tables}
}

func convertFile(path string, w dataset.RecordWriter, options convert.ClicksOptions) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = convert.Clicks(context.Background(), f, w, options)
	return err
}

func writeBoth(out string, fill func(train, test dataset.RecordWriter) error) error {
	return page.Dataset(out, "train", func(train dataset.RecordWriter) error {
		return page.Dataset(out, "test", func(test dataset.RecordWriter) error { return fill(train, test) })
	})
}

// everyFifth passes every fifth record to test and the others to train.
type everyFifth struct {
	train, test dataset.RecordWriter
	records     int
}

// Write implements dataset.RecordWriter.
func (e *everyFifth) Write(record []byte) error {
	e.records++
	if e.records%5 == 0 {
		return e.test.Write(record)
	}
	return e.train.Write(record)
}

// clickers make clicks up. A category, and two that occur together, make a click more or less probable, and so do numbers. Small ids are frequent.
type clickers struct {
	shape  shape
	chance *rand.Rand
}

func newClickers(s shape) *clickers { return &clickers{s, rand.New(rand.NewPCG(1, 2))} }

func (c *clickers) write(train, test dataset.RecordWriter) error {
	for range 12000 {
		if err := c.writeOne(train); err != nil {
			return err
		}
	}
	for range 2000 {
		if err := c.writeOne(test); err != nil {
			return err
		}
	}
	return nil
}

func (c *clickers) writeOne(w dataset.RecordWriter) error {
	ids, numbers := make([]int64, c.shape.categories), make([]float32, c.shape.numbers)
	score := -1.0
	for i := range ids {
		u := c.chance.Float64()
		ids[i] = int64(u * u * u * float64(min(c.shape.vocabulary, 1000)))
		score += liking(uint64(ids[i]), 0)
		if i%2 == 1 {
			score += liking(uint64(ids[i-1]), uint64(ids[i])+1)
		}
	}
	for i := range numbers {
		numbers[i] = c.chance.Float32()
		score += float64(numbers[i]) - 0.5
	}
	clicked := []int64{0}
	if c.chance.Float64() < 1/(1+math.Exp(-score)) {
		clicked[0] = 1
	}
	i, err := tensor.FromSlice(ids, c.shape.categories, 1)
	if err != nil {
		return err
	}
	n, err := tensor.FromSlice(numbers)
	if err != nil {
		return err
	}
	label, err := tensor.FromSlice(clicked)
	if err != nil {
		return err
	}
	return w.Write(dataset.AppendRecord(nil, i, n, label))
}

// liking is a number of about the normal distribution that belongs to a category or a pair of them.
func liking(a, b uint64) float64 { return 0.5 * rand.New(rand.NewPCG(a, b)).NormFloat64() }
