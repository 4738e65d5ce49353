// Package predict answers what a training would need, take and cost before it runs.
package predict
