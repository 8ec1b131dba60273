"""The site: chapters, pages about them, reference and search as one folder of HTML, built by Sphinx."""
