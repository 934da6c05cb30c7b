package web

import "math"

// Bounds of what is kept of the steps of a job.
const (
	maxPoints = 240 // of a series
	maxSeries = 8   // of a job: the first that its steps fetch; and of its evaluations
)

// A series is how a value that steps fetch has changed. Each point stands for every steps that follow each other; when there are too many points, two
// become one.
type series struct {
	every  uint64
	points []point
	last   float64
}

// A point is the values of some steps. Those that are no numbers are left out, and counted.
type point struct {
	bucket        uint64 // number of the first step, divided by every
	sum, min, max float64
	count, odd    int // numbers; others
}

func (p *point) add(v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		p.odd++
		return
	}
	if p.count == 0 {
		p.min, p.max = v, v
	}
	p.sum, p.min, p.max = p.sum+v, min(p.min, v), max(p.max, v)
	p.count++
}

func (p *point) merge(o point) {
	switch {
	case p.count == 0:
		p.sum, p.min, p.max = o.sum, o.min, o.max
	case o.count > 0:
		p.sum, p.min, p.max = p.sum+o.sum, min(p.min, o.min), max(p.max, o.max)
	}
	p.count, p.odd = p.count+o.count, p.odd+o.odd
}

// add enters the value of a step. A step that was told before, because the job has gone back to an earlier state, takes the place of the points from there on.
func (s *series) add(step uint64, v float64) {
	if s.every == 0 {
		s.every = 1
	}
	s.last = v
	bucket := step / s.every
	for len(s.points) > 0 && s.points[len(s.points)-1].bucket > bucket {
		s.points = s.points[:len(s.points)-1]
	}
	if n := len(s.points); n > 0 && s.points[n-1].bucket == bucket {
		s.points[n-1].add(v)
		return
	}
	p := point{bucket: bucket}
	p.add(v)
	s.points = append(s.points, p)
	for len(s.points) > maxPoints {
		s.thin()
	}
}

// thin makes points stand for twice as many steps.
func (s *series) thin() {
	s.every *= 2
	kept := s.points[:0]
	for _, p := range s.points {
		p.bucket /= 2
		if n := len(kept); n > 0 && kept[n-1].bucket == p.bucket {
			kept[n-1].merge(p)
			continue
		}
		kept = append(kept, p)
	}
	s.points = kept
}

// A curve is a series as pages have it: columns of equal length. A point without a number is null.
type curve struct {
	Every uint64     `json:"every"` // steps in a point
	Step  []uint64   `json:"step"`
	Mean  []*float64 `json:"mean"`
	Min   []*float64 `json:"min"`
	Max   []*float64 `json:"max"`
	Odd   int        `json:"odd,omitempty"` // steps whose value is no number
}

func (s *series) curve() curve {
	c := curve{Every: s.every, Step: []uint64{}, Mean: []*float64{}, Min: []*float64{}, Max: []*float64{}}
	for _, p := range s.points {
		var mean, low, high *float64
		if p.count > 0 {
			m := p.sum / float64(p.count)
			if !math.IsInf(m, 0) {
				mean = &m
			}
			low, high = &p.min, &p.max
		}
		c.Step, c.Mean, c.Min, c.Max, c.Odd = append(c.Step, p.bucket*s.every), append(c.Mean, mean), append(c.Min, low), append(c.Max, high), c.Odd+p.odd
	}
	return c
}
