"""What visitors of a website do, one topic per kind of activity: sessions, top pages, funnels; live and by night."""
