"""What do labels of a judge say once people have labelled a few answers?"""
