// Recommender_system predicts how a user would rate a film, from what is known of the user and of the film: two networks make a vector of each, and the
// rating is five times the cosine of the angle between them.
//
//	go run ./examples/recommender_system -movielens ml-1m -out /tmp/films
//
// The folder of -movielens has users.dat, movies.dat and ratings.dat of MovieLens 1M. Every tenth rating is held out. Without -movielens it makes up users,
// films and ratings. The categories and the words of the title of a film are sequences of ids.
package main

import (
	"flag"
	"os"

	"github.com/edl-go/edl/examples/internal/page"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// features are what the networks look up, by the name of the variable, with the width of a vector. The first four describe a user.
var features = []struct {
	name   string
	levels int // 1 for a sequence of ids
	width  int64
}{
	{"user", 0, 32}, {"gender", 0, 16}, {"age", 0, 16}, {"job", 0, 16},
	{"film", 0, 32}, {"categories", 1, 32}, {"title", 1, 32},
}

// userFeatures is the number of features of a user.
const userFeatures = 4

// describe makes the vector of a user or of a film from the ids of some features, of which there are so many.
func describe(ids []layers.Variable, first int, sizes []int64) layers.Variable {
	var parts []layers.Variable
	for i, v := range ids {
		f := features[first+i]
		h := layers.Embedding(v, sizes[first+i], f.width, layers.Sparse(), layers.Param(layers.ParamAttr{Name: f.name + "_table"}))
		switch f.name {
		case "categories":
			h = layers.SequencePool(h, "sum")
		case "title":
			h = layers.SequenceConvPool(h, f.width, 3, "sum", layers.Act("tanh"))
		default:
			h = layers.FC(h, f.width)
		}
		parts = append(parts, h)
	}
	return layers.FC(layers.Concat(parts, 1), 200, layers.Act("tanh"))
}

// evaluate reads a dataset of ratings and returns the mean square error, in squares of stars.
func evaluate(m *layers.Model, data string, sizes []int64, order int) layers.Variable {
	fields := make([]layers.FieldSpec, len(features))
	for i, f := range features {
		fields[i] = layers.Field(f.name, layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(f.levels))
	}
	ratings := layers.OpenDataset(m, data, append(fields, layers.Field("stars", layers.Dims(1)))...)
	if order > 0 {
		ratings = layers.Shuffle(ratings, order, 1)
	}
	batch := layers.Read(layers.DoubleBuffer(layers.Batch(ratings, 256)))
	stars := batch[len(features)]
	user, film := describe(batch[:userFeatures], 0, sizes), describe(batch[userFeatures:len(features)], userFeatures, sizes)
	rating := layers.Scale(layers.CosSim(user, film), 5, 0, layers.Name("rating"))
	return layers.Mean(layers.SquareErrorCost(rating, stars), layers.Name("loss"))
}

func train(sizes []int64) (*program.Program, error) {
	m := layers.NewModel().Seed(1)
	optimizer.SGD(0.2).Minimize(evaluate(m, "train", sizes, 8192))
	return m.Program()
}

// test is the same network without an optimizer.
func test(sizes []int64) (*program.Program, error) {
	m := layers.NewModel()
	evaluate(m, "test", sizes, 0)
	return m.Program()
}

var movielens = flag.String("movielens", "", "folder of MovieLens 1M")

func main() {
	os.Exit(page.Main(func(out string) error { return write(out, *movielens, 20000) }))
}

// write fills out with programs and data, and prints what to do with them. Without a folder it makes up so many ratings.
func write(out, movielens string, made int) error {
	ratings := madeUp(made)
	if movielens != "" {
		var err error
		if ratings, err = readMovieLens(movielens); err != nil {
			return err
		}
	}
	if err := page.Save(out, "program.pb", func() (*program.Program, error) { return train(ratings.sizes) }); err != nil {
		return err
	}
	if err := page.Save(out, "test.pb", func() (*program.Program, error) { return test(ratings.sizes) }); err != nil {
		return err
	}
	if err := ratings.write(out); err != nil {
		return err
	}
	page.Commands(out, "--passes 5 --fetch loss")
	page.Evaluation(out, "loss")
	return nil
}
