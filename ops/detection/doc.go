// Package detection registers the ops that find objects in images: boxes laid over images, their overlaps and codes, and what is pooled from them.
//
// A box is four numbers: left, top, right and bottom, in pixels or as shares of the image. Boxes of a batch are rows, and the boxes of an image are a
// sequence (LoD). Importing the package registers the ops; there is nothing to call. Names, slots, attributes, defaults and arithmetic are Fluid's.
//
// Files: attr.go (attributes that several ops share), prior.go and anchor.go (boxes laid over images), boxes.go (overlaps and codes), yolo.go, roi_pool.go,
// roi_align.go, match.go (which box belongs to which object) and nms.go (which of boxes that overlap is kept).
package detection
