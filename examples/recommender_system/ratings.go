package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/examples/internal/page"
	"github.com/edl-go/edl/tensor"
)

// A rating is the stars that a user gave a film.
type rating struct {
	user, film int64
	stars      float32
}

// A table of ratings, with what is known of users and films.
type table struct {
	users   map[int64][]int64   // gender, age and job
	films   map[int64][][]int64 // categories, and the words of the title
	ratings []rating
	sizes   []int64 // numbers of ids of the features
}

// write writes nine of ten ratings to the dataset train, and the others to test.
func (t *table) write(out string) error {
	tenth := func(i int) bool { return i%10 == 9 }
	return page.Split(out, len(t.ratings), tenth, func(i int) ([]byte, error) { return t.record(t.ratings[i]) })
}

func (t *table) record(r rating) ([]byte, error) {
	user, film := t.users[r.user], t.films[r.film]
	if user == nil || film == nil {
		return nil, fmt.Errorf("a rating of user %d for film %d: want one of a user and for a film that are known", r.user, r.film)
	}
	lists := [][]int64{{r.user}, user[:1], user[1:2], user[2:3], {r.film}, film[0], film[1]}
	values := make([]*tensor.Tensor, 0, len(features)+1)
	for i, ids := range lists {
		value, err := tensor.FromSlice(ids, int64(len(ids)))
		if features[i].levels > 0 {
			if value, err = tensor.FromSlice(ids, int64(len(ids)), 1); err == nil {
				value.SetLoD([][]int64{{0, int64(len(ids))}})
			}
		}
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	stars, err := tensor.FromSlice([]float32{r.stars}, 1)
	if err != nil {
		return nil, err
	}
	return dataset.AppendRecord(nil, append(values, stars)...), nil
}

// A vocabulary gives texts their numbers, in the order in which they are met.
type vocabulary map[string]int64

func (v vocabulary) id(text string) int64 {
	if id, ok := v[text]; ok {
		return id
	}
	v[text] = int64(len(v))
	return v[text]
}

func (v vocabulary) ids(texts []string) []int64 {
	ids := make([]int64, len(texts))
	for i, text := range texts {
		ids[i] = v.id(text)
	}
	return ids
}

// readMovieLens reads the three files of a folder. Their fields stand between "::".
func readMovieLens(folder string) (*table, error) {
	t := &table{users: map[int64][]int64{}, films: map[int64][][]int64{}}
	genders, ages, jobs, categories, words := vocabulary{}, vocabulary{}, vocabulary{}, vocabulary{}, vocabulary{}
	users, films := int64(0), int64(0)
	err := errors.Join(
		readLines(filepath.Join(folder, "users.dat"), 5, func(f []string, id int64) error {
			t.users[id] = []int64{genders.id(f[1]), ages.id(f[2]), jobs.id(f[3])}
			users = max(users, id+1)
			return nil
		}),
		readLines(filepath.Join(folder, "movies.dat"), 3, func(f []string, id int64) error {
			title := strings.Fields(strings.ToLower(f[1]))
			if len(title) == 0 {
				title = []string{"untitled"}
			}
			t.films[id] = [][]int64{categories.ids(strings.Split(f[2], "|")), words.ids(title)}
			films = max(films, id+1)
			return nil
		}),
		readLines(filepath.Join(folder, "ratings.dat"), 4, func(f []string, user int64) error {
			film, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				return err
			}
			stars, err := strconv.ParseFloat(f[2], 32)
			t.ratings = append(t.ratings, rating{user, film, float32(stars)})
			return err
		}))
	if err != nil {
		return nil, err
	}
	t.sizes = []int64{users, int64(len(genders)), int64(len(ages)), int64(len(jobs)), films, int64(len(categories)), int64(len(words))}
	return t, nil
}

// largestID bounds users and films: a table has a row for each id.
const largestID = 10_000_000

// readLines hands on the fields of each line, and its first field as a number.
func readLines(path string, fields int, take func(fields []string, id int64) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		parts := strings.Split(lines.Text(), "::")
		if len(parts) != fields {
			return fmt.Errorf("%s:%d: %d fields with :: between them, want %d", path, n, len(parts), fields)
		}
		id, err := strconv.ParseInt(parts[0], 10, 64)
		if err == nil && (id < 0 || id > largestID) {
			err = fmt.Errorf("the number %d, want one up to %d", id, largestID)
		}
		if err == nil {
			err = take(parts, id)
		}
		if err != nil {
			return &fs.PathError{Op: "line " + strconv.Itoa(n), Path: path, Err: err}
		}
	}
	return lines.Err()
}

// madeUp makes up ratings. A film has one to three of 6 categories, each of which a user likes or not, and the last word of its title is its first category.
// Old people rate a star lower.
func madeUp(n int) *table {
	const users, films, categories, words, ages = 300, 200, 6, 50, 5
	t := &table{users: map[int64][]int64{}, films: map[int64][][]int64{}, sizes: []int64{users, 2, ages, 10, films, categories, words + categories}}
	random := rand.New(rand.NewPCG(1, 4))
	likes := make([][categories]bool, users)
	for u := range int64(users) {
		t.users[u] = []int64{random.Int64N(2), random.Int64N(ages), random.Int64N(10)}
		for c := range likes[u] {
			likes[u][c] = random.IntN(2) == 0
		}
	}
	for f := range int64(films) {
		var in []int64
		for _, c := range random.Perm(categories)[:1+random.IntN(3)] {
			in = append(in, int64(c))
		}
		title := make([]int64, 1+random.IntN(4))
		for i := range title {
			title[i] = random.Int64N(words)
		}
		t.films[f] = [][]int64{in, append(title, words+in[0])}
	}
	for range n {
		r := rating{random.Int64N(users), random.Int64N(films), 0}
		liked := 0
		for _, c := range t.films[r.film][0] {
			if likes[r.user][c] {
				liked++
			}
		}
		r.stars = 2 + 3*float32(liked)/float32(len(t.films[r.film][0]))
		if t.users[r.user][1] == ages-1 {
			r.stars--
		}
		t.ratings = append(t.ratings, r)
	}
	return t
}
